#!/usr/bin/env bash
# Train one encoder: train.sh ATTENTION SEED [DEST_OF_PREPARE] [RUN_FOLDER] [more fairseq-train flags]
# e.g. train.sh mtsa 1; train.sh multihead 1; DEVICE_FLAGS= train.sh mtsa 1   (on a GPU)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: train.sh ATTENTION SEED [DATA] [RUN] [FLAGS]"
attention=${1:?$usage}
seed=${2:?$usage}
data=${3:-data-bin/multi30k}
run=${4:-runs/multi30k/$attention-$seed}
shift $(($# < 4 ? $# : 4))
mkdir -p "$run"
# 4 layers, 128 wide, feed-forward 256, 4 heads: the sizes of the published small model.
# One process: fairseq would take every GPU that it sees, and with each the batch would grow.
exec "${PYTHON:-python}" -m fairseq_cli.train "$data/data-bin" --user-dir "$here/../../plugin" \
    ${DEVICE_FLAGS---cpu} --distributed-world-size 1 --arch transformer_mtsa --encoder-attention "$attention" --seed "$seed" \
    --encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 \
    --encoder-attention-heads 4 --decoder-layers 4 --decoder-embed-dim 128 \
    --decoder-ffn-embed-dim 256 --decoder-attention-heads 4 \
    --encoder-normalize-before --decoder-normalize-before --share-all-embeddings --dropout 0.1 \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
    --lr 0.005 --lr-scheduler polynomial_decay --warmup-updates 300 --total-num-update 1500 \
    --max-tokens 2048 --max-update 1500 \
    --validate-interval 1000000 --validate-interval-updates 250 --save-interval-updates 250 \
    --keep-interval-updates 1 --no-epoch-checkpoints --eval-bleu --eval-bleu-remove-bpe sentencepiece \
    --eval-bleu-args '{"beam": 1, "max_len_a": 1.2, "max_len_b": 10}' \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric \
    --save-dir "$run" --tensorboard-logdir "$run/tensorboard" \
    --log-format json --log-interval 50 --log-file "$run/train.log" "$@"
