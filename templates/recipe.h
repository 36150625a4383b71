/* recipe.h -- model description: the members of this program's Model (runtime/model/model.h).
 *
 * A second line of a field, such as lora.targets, is an equivalent value. */
//@ model
