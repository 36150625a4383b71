//@ if graph
/* All of step_@NAME@() but its inputs. */
static void all_of_@NAME@(cudaStream_t s)
{
//@ calls
}

void step_@NAME@(void)
{
    static cudaGraphExec_t graph;            // made by the first call
    if (!graph)
        graph = capture(all_of_@NAME@);
    send_inputs();
    cuda_check(cudaGraphLaunch(graph, work), "a step");
    begun();
}
//@ end
//@ unless graph
void step_@NAME@(void)
{
    send_inputs();
//@ calls
    begun();
}
//@ end
