# recipes.awk -- valid recipes at random: awk -v seed=N -v count=N -v dir=DIR -v train=1|0 -f recipes.awk
#
# train: shapes that a test can train, without the fields that it varies (micro, accum, recompute, fuse).

function below(n) {          # 0 .. n-1, the same with every awk
    state = (state * 69069 + 1) % 4294967296
    return int(state / 65536) % n
}
function pick(words,    w, n) {
    n = split(words, w, " ")
    return w[below(n) + 1]
}
function subset(words,    w, n, i, s) {
    n = split(words, w, " ")
    for (i = 1; i <= n; i++)
        if (below(2))
            s = s (s ? ", " : "") "\"" w[i] "\""
    return s ? s : "\"" w[below(n) + 1] "\""
}

function model(i,    family, s, H, K, C, tied) {
    family = pick("gpt2 llama qwen2 qwen3 mistral")
    H = pick("1 1 2 3 4 6")
    if (family == "gpt2") {
        D = pick("1 2 3 5 7 8 16 17 24 33 64")
        K = H
        C = H * D
    } else {
        D = 2 * pick("1 2 3 4 5 8 11 16 24 32")
        K = pick("1 2 3 4 6")
        while (H % K)
            K--
        C = below(90) + 1
    }
    T = train ? pick("2 3 7 12 17") : pick("1 1 2 3 5 7 11 16 31 32 33 63")
    layers = train ? pick("1 2 3 5") : pick("1 1 2 3 4 7")
    vocab = pick("2 3 31 97 257 509 1021")
    if (i == 1) { layers = 1; vocab = 2; if (!train) T = 1 }
    s = sprintf("family = \"%s\", layers = %d, hidden = %d, heads = %d, vocab = %d", family, layers, C, H, vocab)
    if (family != "gpt2" || below(2))
        s = s sprintf(", ffn = %d", below(100) + 1)
    if (family != "gpt2")
        s = s sprintf(", kv_heads = %d, head_dim = %d", K, D)
    if (below(2))
        s = s sprintf(", positions = %d", T + below(9))
    tied = family == "gpt2"
    if (below(2)) {
        tied = below(2)
        s = s ", tied = " (tied ? "true" : "false")
    }
    if (family == "llama" && below(3) == 0)
        s = s ", attention_bias = true"
    if (family != "gpt2" && below(4) == 0)
        s = s ", rope_theta = 500000.0, rope_scaling = \"llama3\", rope_original_positions = 16"
    modules = family == "gpt2" ? "c_attn c_proj c_fc" : "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj"
    saved = tied ? "" : family == "gpt2" ? "wte lm_head" : "embed_tokens lm_head"
    return s
}

# The stage of memory.zero: for two ranks or more, one model in two has matrices that are divided. Those of adapters are
# too small; from stage 3 on, frozen ones are divided, too.
function divided(ranks, adapter,    zero) {
    zero = train || ranks == 1 || below(2) ? 0 : adapter ? 3 : below(3) + 1
    if (zero && !sub(/, ffn = [0-9]+/, ", ffn = " 65536, m))
        m = m ", ffn = 65536"
    return zero
}

function lora(    s) {
    s = sprintf("rank = %d, targets = { %s }", pick("1 2 3 4 8 13"), below(4) ? subset(modules) : "\"all-linear\"")
    if (below(2))
        s = s ", dropout = " pick("0.1 0.5 0.95")
    if (below(2))
        s = s ", rslora = true"
    if (below(2))
        s = s ", alpha = " pick("1.0 7.5 64.0")
    if (saved != "" && below(2))
        s = s ", modules_to_save = { " subset(saved) " }"
    return s
}

BEGIN {
    state = seed
    for (i = 0; i < 10; i++)
        below(2)
    for (i = 1; i <= count; i++) {
        file = sprintf("%s/r%03d.lua", dir, i)
        m = model(i)
        ranks = train ? 1 : pick("1 1 2 3")
        adapter = train ? 0 : below(2)
        zero = divided(ranks, adapter)
        target = zero && D ~ /^(16|32|64)$/ ? "sm_90" : "cpu"    # a head size of that target
        print "return {\n    target = \"" target "\",\n    model = { " m " },\n    seq = { max = " T " }," > file
        if (below(3) == 0)
            print "    precision = \"bf16\"," > file
        if (train)
            print "    batch = { micro = 6 }," > file
        else {
            B = pick("1 1 2 3 5 8")
            some = below(3) ? "" : ", targets = " B * (below(T) + 1)
            print "    batch = { micro = " B ", accum = " pick("1 1 2 3") some " }," > file
            print "    gpus = " ranks "," > file
            print "    kernels = { fuse = " pick("true false") " }," > file
            print "    memory = { recompute = \"" pick("none block") "\"" (below(4) ? "" : ", loss_rows = " B) \
                (zero ? ", zero = " zero : "") " }," > file
            if (target != "cpu")
                print "    comm = { overlap = \"all\" }," > file
            print "    data = { kind = \"" pick("packed rows bfd") "\" }," > file
            print "    optim = { decay_rule = \"" pick("hf5 all none") "\" }," > file
        }
        if (train ? below(2) : adapter)
            print "    lora = { " lora() " }," > file
        print "}" > file
        close(file)
    }
}
