#!/usr/bin/env bash
# Train your model: train.sh DATA_BIN RUN_FOLDER [more fairseq-train flags, e.g. --cpu]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=${1:?"usage: train.sh DATA_BIN RUN_FOLDER [FLAGS]"}
run=${2:?"usage: train.sh DATA_BIN RUN_FOLDER [FLAGS]"}
shift 2
"${PYTHON:-python}" -m fairseq_cli.train "$data" --user-dir "$here" --arch my_transformer \
    --encoder-layers 4 --decoder-layers 4 --encoder-embed-dim 256 --decoder-embed-dim 256 \
    --encoder-ffn-embed-dim 1024 --decoder-ffn-embed-dim 1024 \
    --encoder-attention-heads 4 --decoder-attention-heads 4 --share-decoder-input-output-embed \
    --dropout 0.2 --attention-dropout 0.1 \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
    --lr-scheduler inverse_sqrt --lr 0.001 --warmup-updates 1000 --warmup-init-lr 1e-7 \
    --max-tokens 4096 --max-update 20000 --seed 1 --no-epoch-checkpoints \
    --save-dir "$run" --tensorboard-logdir "$run/tensorboard" "$@"
