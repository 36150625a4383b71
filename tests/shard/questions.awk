# questions.awk -- recipes, cards and words at random, a line each: awk -v seed=N -v count=N -v recipes="A B" -v cards="A B"
function below(n) {          # 0 .. n-1, the same with every awk
    state = (state * 69069 + 1) % 4294967296
    return int(state / 65536) % n
}
function pick(words,    w, n) {
    n = split(words, w, " ")
    return w[below(n) + 1]
}
function maybe(of, word) { return below(of) ? "" : " " word }

BEGIN {
    state = seed + 977
    for (i = 0; i < count; i++) {
        words = maybe(2, "seq.max=" pick("128 256 512 1024")) maybe(3, "model.layers=" pick("2 8 40 60"))
        words = words maybe(2, "batch.micro=" pick("1 2 4 16") " batch.accum=" pick("1 2 8"))
        words = words maybe(3, "precision=" pick("fp32 bf16 fp16")) maybe(3, "memory.recompute=" pick("none block auto"))
        words = words maybe(3, "gpus=" pick("2 3 4 8")) maybe(6, "lora.rank=" pick("0 8 64"))
        words = words maybe(6, "optim.moments=8bit") maybe(8, "comm.order=canonical")
        print "recipes/" pick(recipes) ".lua", pick(cards) words
    }
}
