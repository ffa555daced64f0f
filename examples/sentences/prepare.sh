#!/usr/bin/env bash
# Prepare a corpus: prepare.sh CORPUS FOLDER_WITH_ITS_FILES GLOVE_FILE... ; DEST=... names another
# folder than data-bin/CORPUS. CORPUS is one of sick, trec, sst5, sst2, cr, mpqa, mr, snli,
# multinli, squad; README.md says which files the folder holds.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: prepare.sh sick|trec|sst5|sst2|cr|mpqa|mr|snli|multinli|squad FOLDER GLOVE_FILE..."
corpus=${1:?"$usage"} folder=${2:?"$usage"} glove=("${@:3}")
dest=${DEST:-data-bin/$corpus}
files=()
add() {  # FLAG NAME...: the first of these files that there is
    for name in "${@:2}"; do
        if [ -f "$folder/$name" ]; then files+=("$1" "$folder/$name"); return; fi
    done
    echo "prepare.sh: $folder has none of ${*:2}" >&2
    return 1
}
case $corpus in
sick)
    files=(--task relatedness)
    add --train SICK_train.txt train.tsv.gz
    add --valid SICK_trial.txt dev.tsv.gz
    add --test SICK_test_annotated.txt test.tsv.gz
    ;;
trec)  # no validation set: a tenth of each class of the training set, drawn by seed 1
    files=(--task classification --valid-share 0.1 --seed 1)
    add --train train_5500.label train_5500.label.txt trec_train.tsv.gz
    add --test TREC_10.label TREC_10.label.txt trec_test.tsv.gz
    ;;
sst5 | sst2)
    files=(--task classification --sst fine)
    [ "$corpus" = sst5 ] || files=(--task classification --sst binary)
    add --train train.txt train.ptb.gz
    add --valid dev.txt dev.ptb.gz
    add --test test.txt test.ptb.gz
    ;;
cr | mpqa | mr)  # one shuffle, recorded; the papers split words in these
    files=(--task classification --folds 10 --seed 1 --split-words)
    name=$corpus
    [ "$corpus" != cr ] || name=custrev
    [ "$corpus" != mr ] || name=rt-polarity
    add --train "$name.all" "$corpus.tsv.gz"
    ;;
snli)  # dev is reported, so that a tenth of training chooses; edited pairs beside it
    files=(--task nli --valid-share 0.1 --seed 1 --split-words --length-percentile 97)
    add --train train.tsv.gz snli_1.0_train.jsonl snli_1.0_train.txt
    add --test dev.tsv.gz snli_1.0_dev.jsonl snli_1.0_dev.txt
    if [ -f "$folder/counterfactual_dev.tsv.gz" ]; then add --test counterfactual_dev.tsv.gz; fi
    ;;
multinli)
    files=(--task nli --split-words --length-percentile 97)
    add --train train_lil.tsv.gz
    add --valid valid_lil.tsv.gz
    add --test dev_matched.tsv.gz
    ;;
squad)  # as for SNLI
    files=(--task selection --valid-share 0.1 --seed 1 --split-words)
    add --train selection_train.jsonl.gz selection_train.jsonl
    add --test selection_dev.jsonl.gz selection_dev.jsonl
    ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac
"${PYTHON:-python}" "$here/../../scripts/prepare_sentences.py" "${files[@]}" \
    ${glove[@]+--vectors "${glove[@]}"} --dest "$dest"
