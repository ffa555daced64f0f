#!/usr/bin/env bash
# What only a GPU can answer: gpu.sh STAGE [FOLDER]. Each stage takes at most 8 minutes, keeps what it has
# found in FOLDER/STAGE.csv and .json (default: $OUT, else runs/gpu), and resumes there when called again.
#   tests      all tests with --device cuda
#   sizes      16,384 tokens, more than 2^31 elements, a CUDA graph, compute-sanitizer, flagged tiles
#   kernels    the time of each kernel of MTSA's operator, beside flash's
#   timings    operators, layers, encoders: bf16, fp16, fp32, 64 to 16,384 tokens, against flash, FlexAttention
#              (float32 has no flash: there the reference is what torch chooses)
#   tiles      every step of the tile ladders, and DiSA's tiles; tiles FOLDER --write puts the fastest into the code
#   grid       a grid of translation, several runs at a time; RAW=FOLDER_WITH_THE_RAW_TEXT, GRID=FILE.yaml
#              (default: Multi30k's tuning.yaml; its evidence.yaml when one commit has written the choices into it)
#   processes  two processes on one GPU
#   wheels     not a stage: collect in FOLDER what a machine without network needs beside torch (WHEELS=FOLDER
#              installs it there first)
# DEVICE=cpu makes a dry run at tiny sizes. PYTHON=... is another Python, LIMIT=... other seconds, COMMIT=... what
# the rows say: of a copy on another machine, git may know nothing, or an older commit. Where $OUT is emptied
# before each command, a stage resumes from runs/gpu.
set -euo pipefail
usage="usage: gpu.sh tests|sizes|kernels|timings|tiles|grid|processes|wheels [FOLDER]"
stage=${1:?$usage}
[ -z "${WHEELS:-}" ] || WHEELS=$(realpath "$WHEELS")
for name in GRID RAW; do
    [ -z "${!name:-}" ] || export "$name=$(realpath -s "${!name}")"
done
case ${PYTHON:-} in */*) PYTHON=$(realpath -s "$PYTHON") ;; esac # no resolved link: it is a venv's
folder=$(realpath -m "${2:-${OUT:-runs/gpu}}")
shift $(($# < 2 ? $# : 2))
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}
if [ "$folder" = "${OUT:-}" ] && [ ! -e "$folder/$stage.json" ] && [ -e "runs/gpu/$stage.json" ]; then
    cp "runs/gpu/$stage".* "$folder"
fi

wheels() { # of Python 3.12 on Linux x86-64; those without code are built here
    local names binary=(--only-binary=:all: --python-version 3.12 --implementation cp)
    for libc in 2_28 2_27 2_24 2_17; do binary+=(--platform "manylinux_${libc}_x86_64"); done
    binary+=(--platform manylinux2014_x86_64)
    names=$(grep -hoE '^(bitarray|cffi|hydra-core|omegaconf|sacremoses|nltk|tensorboardX|pycparser)==[^ ]+' \
        requirements/base.txt requirements/constraints.txt)
    names+=" $(grep -oE '^fairseq-fixed==[^ ]+' requirements/fairseq.txt)"
    # shellcheck disable=SC2086
    "$python" -m pip download --quiet --no-deps "${binary[@]}" --dest "$folder" $names
    names=$(grep -hoE '^(antlr4-python3-runtime|seqeval)==[^ ]+' requirements/base.txt requirements/constraints.txt)
    # shellcheck disable=SC2086
    "$python" -m pip wheel --quiet --no-deps --use-pep517 --wheel-dir "$folder" $names
    # A lent machine takes few MiB beside the clone: 2 of 20 without what no translation model needs.
    zip --quiet --delete "$folder"/fairseq_fixed-*.whl 'fairseq/examples/*' 'alignment_train*' 'fairseq/lib[bn]a*'
    local tree wheels mib=1048576
    # What was moved away, git still lists.
    tree=$({ git ls-files -z | du -cb --files0-from=- 2> /dev/null || true; } | tail -n 1 | cut -f 1)
    wheels=$(du -cb "$folder"/*.whl | tail -n 1 | cut -f 1)
    echo "$((tree / mib)) MiB of tracked files and $((wheels / mib)) MiB of wheels"
    [ $((tree + wheels)) -le $((60 * mib)) ] || { # 64 travel, results of earlier stages among them
        echo "more than a lent machine takes: move examples/sentences/runs elsewhere before the call" >&2
        return 1
    }
}

if [ "$stage" = wheels ]; then
    wheels
    exit
fi
if [ -n "${WHEELS:-}" ]; then
    site=${TMPDIR:-/tmp}/selfattn-gpu-site
    [ -d "$site" ] || "$python" -m pip install --quiet --no-index --no-deps --target "$site" "$WHEELS"/*.whl
    export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi
[ "${DEVICE:-cuda}" = cuda ] || export TRITON_INTERPRET=1
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
code=0
timeout --kill-after 20 "${LIMIT:-480}" \
    "$python" -m benchmarks.gpu "$stage" "$folder" --device "${DEVICE:-cuda}" "$@" || code=$?
[ "$code" != 124 ] || echo "stopped after ${LIMIT:-480} s: the same command resumes" >&2
exit "$code"
