/* recipe.h -- model description: the members of this program's Model (runtime/model/model.h). */
//@ model
