#!/usr/bin/env bash
# Halve the held-out pairs, clean, split into subwords, binarise: prepare.sh FOLDER_WITH_THE_RAW_TEXT [DEST] [VOCABULARY] [FLAGS]
# FOLDER has train.en, train.de, valid.en, valid.de, or .gz of them. Odd lines of valid validate, even ones test.
# FLAGS go to `selfattn prepare translation`, --overwrite among them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
raw=${1:?"usage: prepare.sh FOLDER_WITH_THE_RAW_TEXT [DEST] [VOCABULARY] [FLAGS]"}
halves=$(mktemp -d)
trap 'rm -r "$halves"' EXIT
for lang in en de; do
    file=$raw/valid.$lang
    [ -e "$file" ] || file=$file.gz
    gzip -cdf "$file" | awk -v folder="$halves" -v lang="$lang" \
        '{print > (folder "/" (NR % 2 ? "valid" : "test") "." lang)}'
done
"${PYTHON:-python}" "$here/../../scripts/prepare_translation.py" --source-lang en --target-lang de \
    --train "$raw/train" --valid "$halves/valid" --test "$halves/test" \
    --vocab-size "${3:-10000}" --dest "${2:-data-bin/mix}" "${@:4}"
