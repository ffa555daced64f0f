#!/usr/bin/env bash
# Prepare SICK or TREC: prepare.sh sick|trec FOLDER_WITH_THE_CORPUS GLOVE_FILE... ; the folder holds
# the official files, or train, dev and test as .tsv.gz. DEST=... names another folder to write.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage="usage: prepare.sh sick|trec FOLDER_WITH_THE_CORPUS GLOVE_FILE..."
corpus=${1:?"$usage"} folder=${2:?"$usage"} glove=("${@:3}")
dest=${DEST:-data-bin/$corpus}
one_of() {  # the first of these files that there is
    for name in "$@"; do
        if [ -f "$folder/$name" ]; then echo "$folder/$name"; return; fi
    done
    echo "prepare.sh: $folder has none of $*" >&2
    return 1
}
case $corpus in
sick)
    train=$(one_of SICK_train.txt train.tsv.gz)
    valid=$(one_of SICK_trial.txt dev.tsv.gz)
    test=$(one_of SICK_test_annotated.txt test.tsv.gz)
    files=(--task relatedness --train "$train" --valid "$valid" --test "$test")
    ;;
trec)  # no validation set: a tenth of each class of the training set, drawn by seed 1
    train=$(one_of train_5500.label train_5500.label.txt trec_train.tsv.gz)
    test=$(one_of TREC_10.label TREC_10.label.txt trec_test.tsv.gz)
    files=(--task classification --train "$train" --valid-share 0.1 --seed 1 --test "$test")
    ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac
"${PYTHON:-python}" "$here/../../scripts/prepare_sentences.py" "${files[@]}" \
    ${glove[@]+--vectors "${glove[@]}"} --dest "$dest"
