/* tensors.h -- map from rows of parameters to tensors of Hugging Face and PEFT files; %d is the
 * layer. */
//@ tensors
