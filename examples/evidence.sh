#!/usr/bin/env bash
# The small files of finished runs, for git: evidence.sh save RUNS KEPT, and back: evidence.sh restore RUNS KEPT
# e.g. examples/evidence.sh save runs/multi30k-evidence examples/multi30k_en_de/evidence/runs
# run_seeds.py skips what was put back: a run is done if run.json fits the grid and the predictions.
set -euo pipefail
usage="usage: evidence.sh save|restore RUNS KEPT"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case ${1:?$usage} in
save) from=${2:?$usage} to=${3:?$usage} ;;
restore) to=${2:?$usage} from=${3:?$usage} ;;
*) echo "$usage" >&2 && exit 2 ;;
esac
shopt -s nullglob
# Without this machine's paths: of the clone, of the folder, of the clone whose .venv is used.
escaped() { sed 's/[][\.*^$+?(){}|#]/\\&/g' <<< "$1"; }
root=$(escaped "$root") here=$(escaped "$PWD")
plain() { sed -E -e "s#$root/##g" -e "s#$here/##g" -e 's#(/[^ "]+)?/(\.venv/bin/)#\2#g' "$1" > "$2"; }
count=0
for record in "$from"/*/run.json; do
    run=$(dirname "$record")
    kept=$to/$(basename "$run")
    count=$((count + 1))
    [ "$1" = save ] || [ ! -e "$kept/run.json" ] || continue # done there: never overwritten
    if [ "$1" = restore ] && [ -e "$kept/config.json" ] && ! cmp -s "$run/config.json" "$kept/config.json"; then
        echo "$kept is from another run, so it is left as it is" >&2
        continue
    fi
    mkdir -p "$kept"
    # Also where run.json is the same: published.sh adds predictions to runs that are done.
    cp "$run/config.json" "$run"/*.{hyp,props,tsv}{,.gz} "$kept"
    case $1 in # compressed, predictions take a sixth of their size
    save) for file in "$kept"/*.{hyp,props,tsv}; do gzip -9 -n -f "$file"; done ;;
    restore) for file in "$kept"/*.gz; do gunzip -f "$file"; done ;;
    esac
    for file in trained.json attempts.json train.log; do
        [ ! -e "$run/$file" ] || plain "$run/$file" "$kept/$file" # folds have theirs
    done
    plain "$record" "$kept/run.json.new"
    mv "$kept/run.json.new" "$kept/run.json" # last: it says that the run is done
done
[ $count -gt 0 ] || { echo "$from has no finished run" >&2 && exit 1; }
if [ -e "$from/summary.csv" ] && { [ "$1" = save ] || [ ! -e "$to/summary.csv" ]; }; then
    cp "$from/summary.csv" "$to"
fi
echo "$count runs from $from to $to"
