#!/usr/bin/env bash
# Train as for CoNLL-2005, in batches twice as large: train.sh ARCH SEED GLOVE [DATA] [RUN] [FLAGS]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: train.sh ARCH SEED GLOVE [DATA] [RUN] [FLAGS]"
arch=${1:?$usage}
seed=${2:?$usage}
glove=${3:?$usage}
data=${4:-data-bin/conll12}
run=${5:-runs/conll12/$arch-$seed}
shift $(($# < 5 ? $# : 5))
exec "$here/../srl_conll05/train.sh" "$arch" "$seed" "$glove" "$data" "$run" --max-tokens 8192 "$@"
