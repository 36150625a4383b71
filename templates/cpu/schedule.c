void step_@NAME@(void)
{
//@ calls
}
