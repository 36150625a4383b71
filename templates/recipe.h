/* recipe.h -- what this binary is for: the members of its Model (runtime/model/model.h). */
//@ model
