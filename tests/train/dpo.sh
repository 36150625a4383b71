#!/bin/bash
# Preference optimisation: runs against the same runs in PyTorch and in TRL (tests/oracle/dpo.py); references that say
# the same; pairs of runs; what is known beforehand; what is refused.
source "$(dirname "$0")/lib.sh"

programs <<<"
dpo_mean dpo_mean
dpo_sum dpo_sum
dpo_lora dpo_lora
dpo_lora.off dpo_lora dpo.reference=adapter_off
dpo_mean.2x1 dpo_mean gpus=2 batch.accum=1
dpo_sum.bf16.again dpo_sum precision=bf16 memory.recompute=block batch.targets=160
"

# ---- the reference, ranks, 16 bit --------------------------------------------------

losses() { sed -n 's/.*"loss": \([0-9.e+-]*\).*/\1/p' "$1/history.jsonl"; }
trl() { sed -n '/"trl": {$/,/}/s/^ *\([0-9][0-9.e-]*\),*$/\1/p' "$ref/$1/expect.json"; }

for name in dpo_mean dpo_sum dpo_lora dpo_mean.2x1; do
    trained $name ${name%%.*} $name
    compare $name reference $ref/${name%%.*} "$scratch/$name"
done
for name in dpo_sum dpo_lora; do
    verdict "$name and DPOTrainer" "$(paste <(losses "$scratch/$name") <(trl $name) | awk '
        { off = ($1 - $2) / $2; n += off > -1e-5 && off < 1e-5 } END { if (n != 10) print n " of 10 within 1e-5" }')"
done
trained dpo_sum.bf16.again dpo_sum bf16
compare dpo_sum.bf16.again reference $ref/dpo_sum "$scratch/bf16" 2e-3

# The model without its adapters says in each step what the cache of the first weights has: the same bits. New adapters.
for name in dpo_lora dpo_lora.off; do
    "$work/$name/run.sh" --data $ref/dpo_lora/tokens.safetensors --eval-data $ref/dpo_lora/eval.safetensors \
        --init-from $ref/dpo_lora/model --out "$scratch/new.$name" >"$scratch/log" 2>&1 ||
        verdict "new $name" "$(tail -n 1 "$scratch/log")"
done
compare "cache and adapters off" history "$scratch/new.dpo_lora" "$scratch/new.dpo_lora.off" 0

# ---- what is known beforehand --------------------------------------------------

number() { sed -n "/\"$1\": /s/.*\"$1\": \([-0-9.e]*\).*/\1/p" "$2/history.jsonl" | head -n 1; }
for name in dpo_mean dpo_sum dpo_lora new.dpo_lora.off bf16; do
    said="$(number loss "$scratch/$name") $(number margin "$scratch/$name") $(number accuracy "$scratch/$name")"
    verdict "$name begins at ln 2" "$([ "$said" = "0.6931471824645996 0.0 0.0" ] || echo "$said")"
done
verdict parameters "$(grep -q 'INT64_C(107840)' "$work/dpo_mean/recipe.h" || grep parameters "$work/dpo_mean/recipe.h")"
while read -r words want; do     # what an op says of a recipe's formula
    # shellcheck disable=SC2086
    said=$("$gen" -d graph recipes/dpo_tiny.lua ${words//,/ } 2>&1 | grep ' dpo %lp' | sed 's/.*  loss/loss/; s/  #.*//' | tr -s ' ')
    verdict "formula of $words" "$([ "$said" = "$want" ] || echo "$said")"
done <<'END'
name=x loss sigmoid dpo_beta 0.1 smoothing 0.0 margin 0.0 shift 1.0 penalty 0.0 kl 0.1 reward 1.0
dpo.kl=none,dpo.loss=dpop,dpo.reward_beta=true loss sigmoid dpo_beta 0.1 smoothing 0.0 margin 0.0 shift 1.0 penalty 50.0 kl 0.0 reward 0.1
dpo.kl=none,dpo.loss=dposhift loss sigmoid dpo_beta 0.1 smoothing 0.0 margin 0.0 shift 0.75 penalty 0.0 kl 0.0 reward 1.0
dpo.kl=none,dpo.loss=dpopshift,dpo.shift=0.5 loss sigmoid dpo_beta 0.1 smoothing 0.0 margin 0.0 shift 0.5 penalty 50.0 kl 0.0 reward 1.0
dpo.kl=none,dpo.loss=ipo,dpo.beta=0.3 loss ipo dpo_beta 0.3 smoothing 0.0 margin 0.0 shift 1.0 penalty 0.0 kl 0.0 reward 1.0
dpo.kl=none,dpo.smoothing=0.1,dpo.margin=2,dpo.reference=none loss sigmoid dpo_beta 0.1 smoothing 0.1 margin 2.0 shift 1.0 penalty 0.0 kl 0.0 reward 1.0
END

# ---- what is refused --------------------------------------------------

while read -r words text; do
    # shellcheck disable=SC2086
    said=$("$gen" -d graph recipes/dpo_tiny.lua ${words//,/ } 2>&1)
    verdict "refused: $words" "$([ $? = 1 ] && grep -q "$text" <<<"$said" || head -n 1 <<<"$said")"
done <<'END'
dpo.penalty=3 dpo.penalty: of dpo.loss = "dpop" and "dpopshift" alone
dpo.shift=0.5 dpo.shift: of dpo.loss = "dposhift" and "dpopshift" alone
dpo.loss=ipo,dpo.smoothing=0.1 dpo.smoothing: has no effect while dpo.loss is "ipo"
dpo.loss=ipo,dpo.margin=1 dpo.margin: has no effect
dpo.kl=none,dpo.kl_weight=1 dpo.kl_weight: has no effect while dpo.kl is "none"
dpo.reference=none there is nothing for dpo.kl = "seq" to be measured by
dpo.reference=adapter_off "adapter_off" wants adapters
dpo.reference=adapter_off,lora.rank=4,lora.modules_to_save=lm_head is not the first model where lora.modules_to_save
gpus=3 batch.global: 8 samples are not divided by
data.kind=rows the objective dpo learns from pairs
batch.targets=4096 is more than batch.micro \* seq.max = 2 \* 8 \* 64 = 1024
END
exit $failed
