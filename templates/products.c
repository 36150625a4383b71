void step_products(void (*say)(const char *line))
{
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++) {
        static const char *const forms[] = {"NT", "NN", "TN"};
        const Gemm *g = gemms[i];
        char how[GEMM_ALGO_BYTES], line[GEMM_ALGO_BYTES + 120];
        gemm_describe(g, how);
        snprintf(line, sizeof line, "%-20.40s %s %lld x %lld x %lld: %s", g->name, forms[g->form],
                 (long long)g->m, (long long)g->n, (long long)g->k, how);
        say(line);
    }
}
