void step_@NAME@(void)
{
//@ if counted
    comm_program("@NAME@");
//@ end
//@ calls
    profile_phase(PROFILE_HOST);
}
