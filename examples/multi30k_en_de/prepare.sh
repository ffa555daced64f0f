#!/usr/bin/env bash
# Clean, split into subwords and binarise Multi30k: prepare.sh FOLDER_WITH_THE_RAW_TEXT [DEST] [VOCABULARY] [FLAGS]
# FLAGS go to `selfattn prepare translation`, --overwrite among them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
raw=${1:?"usage: prepare.sh FOLDER_WITH_THE_RAW_TEXT [DEST] [VOCABULARY] [FLAGS]"}
dest=${2:-data-bin/multi30k}
"${PYTHON:-python}" "$here/../../scripts/prepare_translation.py" --source-lang en --target-lang de \
    --train "$raw/train" --valid "$raw/val" --test "$raw/test_2016_flickr" \
    --lowercase --vocab-size "${3:-4000}" --dest "$dest" "${@:4}"
