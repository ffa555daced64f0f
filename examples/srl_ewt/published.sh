#!/usr/bin/env bash
# The papers' post-processing beside a grid's own decoder: published.sh RUNS GOLD_FOLDER
# Writes dev.published.props and test.published.props for every finished run whose checkpoint is still there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: published.sh RUNS GOLD_FOLDER"
runs=${1:?$usage}
gold=${2:?$usage}
shopt -s nullglob
count=0
for record in "$runs"/*/run.json; do
    run=$(dirname "$record")
    count=$((count + 1))
    checkpoint=$run/checkpoints/checkpoint_best.pt
    for part in dev test; do
        output=$run/$part.published.props
        [ -e "$checkpoint" ] && [ ! -e "$output" ] || continue
        "${PYTHON:-python}" "$here/../../scripts/predict_srl.py" "$checkpoint" --input "$gold/ewt-verbs.$part.conll" \
            --output "$output" --format props --decoder published --device cpu
    done
done
[ $count -gt 0 ] || { echo "$runs has no finished run" >&2 && exit 1; }
