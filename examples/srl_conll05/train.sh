#!/usr/bin/env bash
# Train the published model: train.sh ARCH SEED GLOVE [DATA] [RUN_FOLDER] [more fairseq-train flags]
# e.g. train.sh deepatt_mtsa 1 glove.6B.100d.txt; DEVICE_FLAGS= train.sh ... (on a GPU)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: train.sh ARCH SEED GLOVE [DATA] [RUN] [FLAGS]"
arch=${1:?$usage}
seed=${2:?$usage}
glove=${3:?$usage}
data=${4:-data-bin/conll05}
run=${5:-runs/conll05/$arch-$seed}
shift $(($# < 5 ? $# : 5))
mkdir -p "$run"
# The sizes (10 layers, 200 wide, 8 heads), dropouts and initialisers are the architecture's own.
# 1.0 until update 400,000, then 0.5, from 500,000 on 0.25: as published.
# One process: fairseq would take every GPU that it sees, and with each the batch would grow.
exec "${PYTHON:-python}" -m fairseq_cli.train "$data" --user-dir "$here/../../plugin" \
    ${DEVICE_FLAGS---cpu} --distributed-world-size 1 --task srl_tagging --arch "$arch" --seed "$seed" \
    --word-embeddings "$glove" --criterion bio_tagging --label-smoothing 0.1 \
    --optimizer adadelta --adadelta-rho 0.95 --adadelta-eps 1e-6 --clip-norm 1.0 \
    --lr 1.0 --lr-scheduler piecewise --lr-boundaries 400000,500000 \
    --max-tokens 4096 --max-length 256 --max-update 600000 \
    --validate-interval 1000000 --validate-interval-updates 2000 --save-interval-updates 2000 \
    --keep-interval-updates 1 --keep-best-checkpoints 5 --no-epoch-checkpoints \
    --eval-decoder published --best-checkpoint-metric f1 --maximize-best-checkpoint-metric \
    --save-dir "$run" --tensorboard-logdir "$run/tensorboard" \
    --log-format json --log-interval 100 --log-file "$run/train.log" "$@"
