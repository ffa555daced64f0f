#!/usr/bin/env bash
# Train one tagger: train.sh ARCH SEED GLOVE [DATA] [RUN_FOLDER] [more fairseq-train flags]
# e.g. train.sh deepatt_mtsa 1 glove.6B.100d.txt
#      train.sh deepatt 1 glove.6B.100d.txt data-bin/srl_ewt runs/srl_ewt/deepatt-1 \
#          --no-scale-embedding --embedding-dropout 0
# 4 layers fit a CPU; the published size on a GPU:
#   DEVICE_FLAGS= train.sh deepatt_mtsa 1 GLOVE DATA RUN --encoder-layers 10
# The same command again resumes an interrupted run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: train.sh ARCH SEED GLOVE [DATA] [RUN] [FLAGS]"
arch=${1:?$usage}
seed=${2:?$usage}
glove=${3:?$usage}
data=${4:-data-bin/srl_ewt}
run=${5:-runs/srl_ewt/$arch-$seed}
shift $(($# < 5 ? $# : 5))
mkdir -p "$run"
# Published is Adadelta for 600,000 updates; Adam learns as much in a fraction of them.
# One process: fairseq would take every GPU that it sees, and with each the batch would grow.
exec "${PYTHON:-python}" -m fairseq_cli.train "$data" --user-dir "$here/../../plugin" \
    ${DEVICE_FLAGS---cpu} --distributed-world-size 1 --num-workers 0 --task srl_tagging --arch "$arch" --seed "$seed" \
    --encoder-layers 4 --word-embeddings "$glove" --dropout 0.3 \
    --criterion bio_tagging --label-smoothing 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1.0 \
    --lr 0.001 --lr-scheduler polynomial_decay --warmup-updates 300 --total-num-update 12000 \
    --max-update 12000 --max-tokens 1024 \
    --eval-decoder he --best-checkpoint-metric f1 --maximize-best-checkpoint-metric \
    --keep-last-epochs 1 \
    --save-dir "$run" --tensorboard-logdir "$run/tensorboard" \
    --log-format json --log-interval 50 --log-file "$run/train.log" "$@"
