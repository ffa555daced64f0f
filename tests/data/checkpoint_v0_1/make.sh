#!/usr/bin/env bash
# How the files in this folder were made; from the root of a clone, into the folder OUT.
# It is a record, not a tool: the files must stay as version 0.1 wrote them.
set -euo pipefail
out=${1:?"usage: tests/data/checkpoint_v0_1/make.sh OUT"}
text=tests/data/checkpoint_v0_1/text
export OMP_NUM_THREADS=1
python -m fairseq_cli.preprocess --source-lang src --target-lang tgt --workers 1 \
    --trainpref "$text/train" --validpref "$text/test" --testpref "$text/test" --destdir "$out"
for preset in paper nmt; do
    python -m fairseq_cli.train "$out" --user-dir plugin --cpu --num-workers 0 --seed 1 \
        --arch transformer_mtsa_tiny --encoder-attention mtsa --mtsa-preset "$preset" \
        --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16 \
        --encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32 \
        --optimizer adam --lr 0.01 --criterion cross_entropy --max-tokens 400 \
        --max-update 400 --disable-validation --no-epoch-checkpoints \
        --no-save-optimizer-state --save-dir "$out/$preset"
    python -m fairseq_cli.generate "$out" --user-dir plugin --cpu --beam 4 \
        --path "$out/$preset/checkpoint_last.pt" | grep '^H-' | sort -V > "$out/$preset.expected"
    cp "$out/$preset/checkpoint_last.pt" "$out/$preset.pt"
done
