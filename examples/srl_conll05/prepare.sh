#!/usr/bin/env bash
# Build the licensed data and prepare it: prepare.sh TREEBANK FOLDER_WITH_BOTH_ARCHIVES [DEST] [FLAGS]
# FLAGS go to `selfattn prepare srl`, --overwrite among them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: prepare.sh TREEBANK FOLDER_WITH_BOTH_ARCHIVES [DEST] [FLAGS]"
treebank=${1:?$usage}
archives=${2:?$usage}
dest=${3:-data-bin/conll05}
python=${PYTHON:-python}
# ANY_COUNTS=1 accepts other counts than the published ones.
if [ -e "$dest.text" ]; then # it appears whole or not at all
    echo "taking the text that is already in $dest.text (remove that folder to build it anew)" >&2
    [ -n "${ANY_COUNTS:-}" ] || "$python" "$here/check_counts.py" "$dest.text"
else
    "$python" "$here/../../scripts/prepare_conll05.py" --treebank "$treebank" \
        --archive "$archives/conll05st-release.tar.gz" "$archives/conll05st-tests.tar.gz" \
        --dest "$dest.text" ${ANY_COUNTS:+--any-counts}
fi
"$python" "$here/../../scripts/prepare_srl.py" --train "$dest.text/train.conll" \
    --valid "$dest.text/dev.conll" --test "$dest.text/test.wsj.conll" \
    --test "$dest.text/test.brown.conll" --dest "$dest" "${@:4}"
