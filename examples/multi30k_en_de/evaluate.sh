#!/usr/bin/env bash
# Translate test_2016_flickr with the last checkpoint and score: evaluate.sh RUN_FOLDER [DATA]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=${1:?"usage: evaluate.sh RUN_FOLDER [DATA]"}
data=${2:-data-bin/multi30k}
"${PYTHON:-python}" -m fairseq_cli.generate "$data/data-bin" --user-dir "$here/../../plugin" \
    ${DEVICE_FLAGS---cpu} --path "$run/checkpoint_last.pt" --gen-subset test --beam 5 --lenpen 1 \
    --max-len-a 1.2 --max-len-b 10 --remove-bpe sentencepiece --max-tokens 4000 > "$run/test.out"
"${PYTHON:-python}" "$here/../../scripts/score_translation.py" "$run/test.out" \
    --ref "$data/raw/test.de" --lowercase --save "$run/test.de"
