/* tensors.h -- which rows of which parameter are which tensor of a Hugging Face or PEFT file; %d is
 * the layer. */
//@ tensors
