#!/bin/sh
# All benchmarks of one device: examples/benchmarks/run.sh [cpu|cuda] [FLAGS for all of them]
set -eu
cd "$(dirname "$0")/../.."
device=${1:-cpu}
case $device in
    cpu | cuda) ;;
    *) echo "run.sh: error: the device is $device, but must be cpu or cuda" >&2; exit 2 ;;
esac
[ $# -eq 0 ] || shift
out=examples/benchmarks

failed=
bench() { # NAME SCRIPT FLAGS...: rows, tables and pictures; goes on after a refused row
    name=$1-$device
    script=$2
    case $1 in
        *-training | *-inference) plots="--plots $out" ;; # named by level and mode
        *) plots= ;;
    esac
    shift 2
    echo "== $name" >&2
    # shellcheck disable=SC2086
    code=0
    python "scripts/$script" --device "$device" --csv "$out/$name.csv" $plots "$@" \
        > "$out/$name.tmp" || code=$?
    [ $code -eq 0 ] || failed="$failed $name"
    rm -f "$out/$name"-*.svg # large, and no page shows them
    if [ $code -lt 128 ] && [ -s "$out/$name.tmp" ]; then # else it was stopped, or never began
        mv "$out/$name.tmp" "$out/$name.md"
    else
        rm "$out/$name.tmp"
    fi
    [ $code -lt 128 ] || exit $code
}

if [ "$device" = cuda ]; then
    bench operator-training bench_attention.py --level operator --dtype bfloat16 --embed-dim 512 \
        --max-tokens 65536 "$@"
    bench layer-training bench_attention.py --dtype bfloat16 --max-tokens 65536 "$@"
    bench layer-inference bench_attention.py --dtype bfloat16 --max-tokens 65536 \
        --mode inference "$@"
    bench encoder-training bench_training.py --dtype bfloat16 --batch 1024 --max-tokens 25000 "$@"
    bench fairseq-training bench_training.py --level fairseq --dtype bfloat16 --batch 1024 \
        --max-tokens 25000 "$@"
else
    for mode in training inference; do
        bench layer-$mode bench_attention.py --mode $mode --lengths 16 64 128 256 512 1024 2048 \
            --max-tokens 8192 --seconds 4 "$@"
    done
    own='multihead:layer multihead:masks mtsa:srl mtsa:paper mtsa:nmt'
    # shellcheck disable=SC2086
    bench layer-own bench_attention.py --reference multihead:layer --lengths 64 128 256 512 1024 2048 \
        --max-tokens 8192 --seconds 4 \
        --methods $own multihead:window multihead:relative multihead:rotary multihead:alibi "$@"
    bench layer-dropout bench_attention.py --methods-module benchmarks/dropout.py --reference dropout \
        --methods dropout dropout:multihead dropout:masks dropout:srl dropout:paper \
        --lengths 16 64 128 256 512 1024 2048 --max-tokens 8192 --seconds 4 "$@"
    # shellcheck disable=SC2086
    bench encoder-own bench_training.py --reference multihead:layer --lengths 30 64 --max-tokens 2048 \
        --seconds 8 --methods $own "$@"
    bench operator-training bench_attention.py --level operator --lengths 64 128 256 1024 \
        --max-tokens 4096 --seconds 4 "$@"
    for threads in 1 2; do # elapsed time: leave the machine alone
        bench operator-threads-$threads bench_attention.py --level operator --wall --threads $threads \
            --embed-dim 256 --lengths 128 512 2048 --max-tokens 4096 --seconds 4 --no-memory \
            --methods sdpa mtsa mtsa:undirected "$@"
    done
    bench context-training bench_attention.py --level context --embed-dim 300 --heads 4 \
        --lengths 11 20 40 --seconds 4 "$@"
    bench encoder-training bench_training.py --max-tokens 2048 --seconds 8 "$@"
    bench fairseq-training bench_training.py --level fairseq --max-tokens 512 --lengths 30 "$@"
fi

[ -z "$failed" ] || { echo "not all rows could be reported:$failed" >&2; exit 1; }
