#!/usr/bin/env bash
# Train one encoder in one of the paper's setups:
#   train.sh setup1|setup2 ATTENTION SEED [DEST_OF_PREPARE] [RUN_FOLDER] [more fairseq-train flags]
# e.g. train.sh setup1 mtsa 1; PROCESSES=4 train.sh setup2 multihead 1   (on four GPUs)
# train.sh --flags setup2 mtsa 1 prints the flags instead, for a cluster's own commands.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: train.sh [--flags] setup1|setup2 ATTENTION SEED [DATA] [RUN] [FLAGS]"
only_flags=
if [ "${1:-}" = --flags ]; then only_flags=1; shift; fi
setup=${1:?$usage}
attention=${2:?$usage}
seed=${3:?$usage}
data=${4:-data-bin/wmt14}
run=${5:-runs/wmt14/$setup-$attention-$seed}
shift $(($# < 5 ? $# : 5))

# tensor2tensor's rate 2 x 512^-0.5 x min(1, s/W) x max(s, W)^-0.5 peaks at the end of the warm-up W.
# A "process" of the paper is a GPU of its own batch of max-tokens.
case $setup in
    setup1) lr=0.000698771 warmup=16000 tokens=2048 published=1 updates=250000 save=2000 keep=5 bias=5 ;;
    setup2) lr=0.000988212 warmup=8000 tokens=6144 published=4 updates=133000 save=1000 keep=16 bias=0 ;;
    *) echo "train.sh: error: the setup is $setup, but must be setup1 or setup2" >&2; exit 2 ;;
esac
processes=${PROCESSES:-1}
if ! [[ $processes =~ ^[1-9][0-9]*$ ]] || ((published % processes)); then
    echo "train.sh: error: PROCESSES is $processes, but must divide the $published of $setup" >&2
    exit 2
fi

flags=(
    --encoder-attention "$attention" --seed "$seed"
    --encoder-normalize-before --decoder-normalize-before --share-all-embeddings
    --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --optimizer adam --adam-betas "(0.9,0.997)" --adam-eps 1e-9 --clip-norm 0.0 --weight-decay 0.0
    --lr "$lr" --lr-scheduler inverse_sqrt --warmup-init-lr 0 --warmup-updates "$warmup"
    --max-tokens "$tokens" --update-freq $((published / processes)) --max-update "$updates"
    --max-source-positions 256 --max-target-positions 256 --skip-invalid-size-inputs-valid-test
    --no-epoch-checkpoints --save-interval-updates "$save" --keep-interval-updates "$keep"
    --log-format json --log-interval 100
)
# The published commands: no masks, one-layer source2token from values, in Setup 1 with its bias at 5.
if [ "$attention" = mtsa ]; then flags+=(--mtsa-preset nmt --mtsa-s2t-bias-init "$bias"); fi
if [ -n "$only_flags" ]; then echo "${flags[@]}"; exit; fi

python=${PYTHON:-python}
if ((processes > 1)); then
    launch=("$python" -m torch.distributed.run --nproc-per-node "$processes" -m fairseq_cli.train)
else
    # fairseq would take every GPU that it sees, and with each the batch would grow.
    launch=("$python" -m fairseq_cli.train)
    flags+=(--distributed-world-size 1)
fi
mkdir -p "$run"
exec "${launch[@]}" "$data/data-bin" --user-dir "$here/../../plugin" ${DEVICE_FLAGS-} \
    --arch transformer_mtsa_wmt_en_de "${flags[@]}" \
    --save-dir "$run" --tensorboard-logdir "$run/tensorboard" --log-file "$run/train.log" "$@"
