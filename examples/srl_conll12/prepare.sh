#!/usr/bin/env bash
# Check and prepare CoNLL-2012: prepare.sh TRAIN DEVELOPMENT TEST [DEST] [FLAGS]
# The first three are folders of *gold_conll; FLAGS go to `selfattn prepare srl`, --overwrite among them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: prepare.sh TRAIN DEVELOPMENT TEST [DEST] [FLAGS]"
train=${1:?$usage}
dev=${2:?$usage}
test=${3:?$usage}
python=${PYTHON:-python}
# ANY_COUNTS=1 accepts other counts than the published ones.
"$python" "$here/check_data.py" --train "$train" --dev "$dev" --test "$test" \
    ${ANY_COUNTS:+--any-counts}
"$python" "$here/../../scripts/prepare_srl.py" --train "$train" --valid "$dev" --test "$test" \
    --dest "${4:-data-bin/conll12}" "${@:5}"
