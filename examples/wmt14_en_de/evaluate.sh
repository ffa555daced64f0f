#!/usr/bin/env bash
# Translate newstest2014 and score it: evaluate.sh RUN_FOLDER [DEST_OF_PREPARE]
# With the last checkpoint; if the run kept 16 (Setup 2), with their average, too.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=${1:?"usage: evaluate.sh RUN_FOLDER [DATA]"}
data=${2:-data-bin/wmt14}
python=${PYTHON:-python}

# tensor2tensor: beam 4, alpha 0.6, at most 100 tokens more than the source.
evaluate() {
    "$python" -m fairseq_cli.generate "$data/data-bin" --user-dir "$here/../../plugin" \
        ${DEVICE_FLAGS-} --path "$2" --gen-subset test --beam 4 --lenpen 0.6 \
        --max-len-a 1 --max-len-b 100 --remove-bpe sentencepiece \
        --max-tokens "${MAX_TOKENS:-8000}" > "$run/$1.out"
    "$python" "$here/score.py" --run "$run" --name "$1" --checkpoint "$2" --data "$data" \
        --output "$run/$1.out"
}

evaluate last "$run/checkpoint_last.pt"
kept=("$run"/checkpoint_*_*.pt)
if ((${#kept[@]} >= 16)); then
    "$python" "$here/../../scripts/average_checkpoints.py" --dir "$run" --last 16 --by update \
        --output "$run/average16.pt"
    evaluate average16 "$run/average16.pt"
fi
