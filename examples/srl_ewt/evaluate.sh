#!/usr/bin/env bash
# Score a run: evaluate.sh RUN_FOLDER GOLD [more flags of predict_srl.py]
# e.g. evaluate.sh runs/srl_ewt/deepatt_mtsa-1 data/srl_ewt/ewt-verbs.dev.conll
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: evaluate.sh RUN GOLD [FLAGS]"
run=${1:?$usage}
gold=${2:?$usage}
shift 2
predicted=$run/$(basename "${gold%.conll}").props
"${PYTHON:-python}" "$here/../../scripts/predict_srl.py" "$run/checkpoint_best.pt" \
    --input "$gold" --output "$predicted" --decoder structured "$@"
"${PYTHON:-python}" "$here/../../scripts/score_srl.py" "$gold" "$predicted"
