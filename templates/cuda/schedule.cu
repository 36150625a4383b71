//@ if graph
/* step_@NAME@() without the transfer of its inputs. */
static void all_of_@NAME@(cudaStream_t s)
{
//@ calls
}

void step_@NAME@(void)
{
    static Captured all = {.run = all_of_@NAME@};
//@ if counted
    comm_program("@NAME@");
//@ end
    launch(&all);
}
//@ end
//@ unless graph
void step_@NAME@(void)
{
//@ if counted
    comm_program("@NAME@");
//@ end
    send_inputs();
//@ calls
    begun();
}
//@ end
