-- TransitionEncoder of F, written by gen new; start it with --init-from of that folder.
-- Planned: N of N a rank; 8,536 parameters, 8,536 of them trained.
-- Unsaid: ad.env, ad.next_state, ad.region, ad.boundary: set those of its training if not default.
return {
    about = "F, all weights, fp32",
    target = "cpu",
    objective = "ad",
    model = { family = "transitions", layers = 2, hidden = 16, heads = 2 },
    batch = { micro = 8 },
    ad = { context = "compressed", n_transit = 18 },
}
