#!/usr/bin/env bash
# Tag and score development set and both test sets: evaluate.sh RUN_FOLDER [DATA] [CHECKPOINT ...]
# Several checkpoints are an ensemble. DECODER=structured and the like choose another decoder than
# the published one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=${1:?"usage: evaluate.sh RUN_FOLDER [DATA] [CHECKPOINT ...]"}
data=${2:-data-bin/conll05}
shift $(($# < 2 ? $# : 2))
python=${PYTHON:-python}
if [ $# -gt 0 ]; then mkdir -p "$run"; else set -- "$run/checkpoint_best.pt"; fi
# test is WSJ section 23, test1 is Brown, which other data does not have.
for part in valid test test1; do
    [ -e "$data/$part.conll" ] || [ "$part" != test1 ] || continue
    "$python" "$here/../../scripts/predict_srl.py" "$@" --input "$data/$part.conll" \
        --decoder "${DECODER:-published}" --output "$run/$part.props"
    echo "== $part"
    "$python" "$here/../../scripts/score_srl.py" "$data/$part.conll" "$run/$part.props"
done
