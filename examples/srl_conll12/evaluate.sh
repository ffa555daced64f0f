#!/usr/bin/env bash
# Tag and score development and test set: evaluate.sh RUN_FOLDER [DATA] [CHECKPOINT ...]
# Several checkpoints are an ensemble; DECODER=structured and the like choose another decoder.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=${1:?"usage: evaluate.sh RUN_FOLDER [DATA] [CHECKPOINT ...]"}
data=${2:-data-bin/conll12}
shift $(($# < 2 ? $# : 2))
exec "$here/../srl_conll05/evaluate.sh" "$run" "$data" "$@"
