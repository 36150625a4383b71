void step_@NAME@(void)
{
//@ calls
    profile_phase(PROFILE_HOST);
}
