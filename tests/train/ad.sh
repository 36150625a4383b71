#!/bin/bash
# Algorithm distillation: runs against the same runs in PyTorch (tests/oracle/ad.py), where each query is a sequence of
# its own, as long as it is: also those of a region that a program asks all at once, and those in padded batches; ranks,
# 16 bit, what an untrained model knows.
source "$(dirname "$0")/lib.sh"

programs <<<"
ad_one ad_one
ad_one.2x1 ad_one gpus=2 batch.accum=1 memory.recompute=block
ad_all ad_all
ad_last.bf16 ad_last precision=bf16
ad_plain ad_plain
ad_windows ad_windows
"

# ---- runs in PyTorch

for name in ad_one ad_all ad_plain ad_windows ad_one.2x1; do
    trained $name ${name%%.*} $name
    compare $name reference $ref/${name%%.*} "$scratch/$name"
done
trained ad_last.bf16 ad_last bf16
compare ad_last.bf16 reference $ref/ad_last "$scratch/bf16" 4e-3

# ---- what an untrained model knows: nothing of five actions, of three types

# within 0.4 of ln 5 and ln 3: what first weights add
for name in ad_all ad_plain; do
    trained $name $name untrained --init-from none --eval-only
    verdict "$name: untrained" "$(grep eval_loss "$scratch/untrained.log" | tr ',{}' '\n' | awk -F '": ' '
        function off(x, of) { return x < of - 0.4 || x > of + 0.4 }
        /eval_loss_action/ { n++; if (off($2, log(5))) print }
        /eval_loss_token_type/ && $2 != "null" { n++; if (off($2, log(3))) print }
        END { if (n != ("'$name'" == "ad_all" ? 2 : 1)) print n " losses" }')"
done
exit $failed
