"""scripts/prepare_sentences.py as a user runs it, with good and with bad files."""

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch

from selfattn.errors import UserError
from selfattn_tasks.sentences.folder import Folder
from selfattn_tasks.sentences.formats.reading import read
from selfattn_tasks.sentences.formats.source import Reading
from selfattn_tasks.sentences.record import Example, Kind
from tests.scripts import conftest

NLI = "label\tpremise\thypothesis\n"
TRAIN = NLI + (
    "neutral\tCats sleep.\tDogs run\nentailment\tCats sleep.\tCats rest.\n-\tA\tB\n"
    "neutral\tCats sleep.\tDogs run\ncontradiction\tCats don't sleep\t\n"
)
VALID = NLI + "neutral\tCats sleep .\tDogs run\nentailment\tTea boils\tTea is hot\n"
CLASSES = "".join(f"{n % 2} tea number {n}\n" for n in range(30)) + "1 \n2 milk\n"
VECTORS = "cats 1 2 3\nsleep 4 5 6\nboils 7 8 9\nunused 0 0 0\nTea 1 1 1\n"
TREES = "(3 (2 Cats) (4 sleep))\n(2 Tea)\n(0 (1 Do) (0 (1 n't) (2 sleep)))\n"


@pytest.fixture
def place(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, text in (("train", TRAIN), ("valid", VALID), ("classes", CLASSES),
                       ("vectors", VECTORS), ("trees", TREES)):  # fmt: skip
        (folder / name).write_text(text)
    return tmp_path


@pytest.fixture
def prepare(run_cli, place):
    def run(line, dest="data"):
        words = [f"corpus/{w[1:]}" if w.startswith("@") else w for w in line.split()]
        return run_cli(["scripts/prepare_sentences.py", *words, "--dest", dest], cwd=place)

    return run


def refused(done, place, *sentence):
    conftest.refused(done, "prepare_sentences.py: error: ", *sentence)
    assert [path.name for path in place.iterdir()] == ["corpus"]


def test_the_folder(prepare, place):
    done = prepare("--task nli --train @train --valid @valid --test @valid --test @train "
                   "--vectors @vectors").ok()  # fmt: skip
    data = Folder(place / "data")
    assert sorted(path.name for path in data.path.iterdir()) == [
        "dict.txt", "meta.json", "test.jsonl", "test1.jsonl", "train.jsonl", "valid.jsonl",
        "vectors.npz",
    ]  # fmt: skip
    assert data.kind is Kind.NLI and data.selection == "dev" and data.fold_count == 0
    assert data.labels == ("contradiction", "neutral", "entailment")
    train = data.examples("train")
    assert len(train) == 4 and train == data.examples("test1")
    assert train[0] == Example((("cats", "sleep", "."), ("dogs", "run")), "neutral")
    assert train[-1] == Example((("cats", "do", "n't", "sleep"), ()), "contradiction")
    assert (data.path / "dict.txt").read_text() == (
        "cats 5\n. 4\nsleep 4\ndogs 2\nrun 2\ndo 1\nn't 1\nrest 1\n"
    )
    assert data.words() == ("cats", ".", "sleep", "dogs", "run", "do", "n't", "rest")
    assert data.meta["dropped"]["train"] == {"without a gold label (-)": 1}
    assert data.meta["overlaps"]["valid in train"] == 1
    assert data.meta["repeated"]["train"] == 1
    assert data.meta["unknown words in percent"]["valid"] == round(100 * 5 / 10, 2)
    assert data.meta["inputs"]["corpus/train"] == hashlib.sha256(TRAIN.encode()).hexdigest()
    assert data.lengths == (2.5, pytest.approx(1.25**0.5, abs=0.001))
    # Of the words of all parts, and of no other; `Tea` has a vector that the word `tea` has not.
    vectors = data.vectors()
    assert vectors.words == {"boils": 0, "cats": 1, "sleep": 2}
    assert torch.equal(vectors.values[1], torch.tensor([1.0, 2, 3]))
    for line in (
        "corpus/train: left out: 1 without a gold label (-)",
        "train          4 examples; sentences of 2.5 words, the longest has 4; 0.00 % of the words "
        "unknown; 1 empty sentences",
        "dictionary of 8 words",
        "vectors of 3 numbers for 3 words; words of the text without one: train",
        "warning: examples of valid that are also in train: 1",
        "warning: examples of train that repeat others of it: 1",
    ):
        assert line in done.stdout


def test_a_class_of_the_test_set_alone_is_none_of_the_network(prepare, place):
    (place / "corpus" / "few").write_text("0 tea\n1 milk\n")
    done = prepare("--task classification --train @few --valid @few --test @classes").ok()
    data = Folder(place / "data")
    assert data.labels == ("0", "1")
    assert "test has labels that training never shows: 2" in done.stdout


def test_what_is_read_is_never_replaced(prepare, place):
    line = "--task nli --train @train --valid @valid --overwrite"
    (place / "corpus" / "more.jsonl").touch()
    refused(prepare(line, dest="corpus"), place, "corpus holds something else (no meta.json)")
    (place / "corpus" / "meta.json").touch()
    message = "corpus/train, one of the inputs, lies in the destination corpus and would be lost"
    for dest in ("corpus", "."):
        (place / "meta.json").touch()
        done = prepare(line, dest=dest)
        assert (
            done.returncode == 2 and message.replace("tion corpus", f"tion {dest}") in done.stderr
        )
    assert sorted(path.name for path in (place / "corpus").iterdir()) == sorted(
        ["train", "valid", "classes", "vectors", "trees", "more.jsonl", "meta.json"]
    )


def test_folds(prepare, place):
    prepare("--task classification --train @classes --folds 4 --seed 3").ok()
    done = prepare("--task classification --train @classes --folds 4 --seed 3", dest="again")
    data = Folder(place / "data")
    assert data.fold_numbers == Folder(place / "again").fold_numbers
    assert sorted(path.name for path in data.path.iterdir()) == [
        "all.jsonl", "folds.json", "meta.json"
    ]  # fmt: skip
    assert data.labels == ("0", "1", "2") and data.fold_count == 4 and data.examples("test", 0)
    whole = read(place / "corpus" / "classes", Kind.CLASSIFICATION).examples
    own = data.fold_numbers[-1]  # of the one example of the class 2
    others = ", ".join(str(fold) for fold in range(4) if fold != own)
    assert f"warning: no example of the class 2 in the folds {others}" in done.stdout
    for fold in range(4):
        parts = {split: data.examples(split, fold) for split in ("train", "valid", "test")}
        assert [len(part) for part in parts.values()] == [16, 8, 8]
        assert parts["test"] == [whole[n] for n in data.positions("test", fold)]
        # Words of training alone: milk is unknown while its fold is tested.
        assert ("milk" in data.words(fold)) == (fold not in (own, (own - 1) % 4))
    with pytest.raises(UserError, match="--fold is 4; .* has 4 folds, from 0 to 3"):
        data.examples("train", 4)
    with pytest.raises(UserError, match="--fold is missing; .* has 4 folds"):
        data.words()
    (data.path / "folds.json").write_text("[0, 1]")
    with pytest.raises(UserError, match="all.jsonl has 32 examples, but folds.json 2 numbers"):
        Folder(data.path).examples("train", 0)
    (data.path / "folds.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="folds.json cannot be read .it is not JSON"):
        Folder(data.path).examples("train", 0)


def test_the_papers_choice_on_the_test_data_is_named(prepare, place):
    done = prepare("--task nli --train @train --test @valid --select-on-test")
    data = Folder(place / "data")
    assert data.selection == "test" and data.examples("valid") == data.examples("test")
    assert "warning: checkpoints will be chosen on the test data" in done.stdout
    prepare("--task classification --train @classes --folds 4 --select-on-test", dest="folds")
    data = Folder(place / "folds")
    assert data.examples("valid", 1) == data.examples("test", 1)
    assert len(data.examples("train", 1)) == 24
    with pytest.raises(UserError, match="no part 'dev'; each fold has: train, valid, test"):
        data.examples("dev", 1)


def test_a_validation_share_is_drawn(prepare, place):
    done = prepare("--task classification --train @classes --test @classes --valid-share 0.2").ok()
    data = Folder(place / "data")
    held = data.examples("valid")
    assert [e.target for e in held].count("0") == [e.target for e in held].count("1") == 3
    assert len(data.examples("train")) == 32 - 6
    assert data.meta["valid share"] == 0.2
    assert "drew 6 of the training examples for validation" in done.stdout


def test_trees_train_on_phrases_and_test_on_sentences(prepare, place):
    prepare("--task classification --train @trees --valid @trees --sst fine").ok()
    data = Folder(place / "data")
    assert len(data.examples("train")) == 9 and len(data.examples("valid")) == 3
    assert data.lengths[0] == 2.0  # of whole sentences, as the block length needs them
    assert data.meta["overlaps"] == {"valid in train": 3}
    prepare("--task classification --train @trees --valid @trees --sst-repeat", dest="more")
    more = Folder(place / "more")
    assert len(more.examples("train")) == 4 * 7 + 2
    assert more.examples("valid") == data.examples("valid")


def test_a_file_that_names_its_parts_gives_all_of_them(prepare, place):
    rows = [f"A {n}\tB\t{n}\t{part}\n" for n, part in enumerate(("TRAIN", "TRIAL", "TEST"), 1)]
    header = "sentence_A\tsentence_B\trelatedness_score\tSemEval_set\n"
    (place / "corpus" / "sick").write_text(header + "".join(rows))
    (place / "corpus" / "more").write_text("text1\ttext2\tscore\nC\tD\t4\n")
    refused(prepare("--task relatedness --train @sick --valid-share 0.5"), place,
            "--valid-share is 0.5, but --train names its own")  # fmt: skip
    refused(prepare("--task relatedness --train @sick --select-on-test"), place,
            "--select-on-test is given, but --train names its own")  # fmt: skip
    prepare("--task relatedness --train @sick @more").ok()
    data = Folder(place / "data")
    parts = [data.examples(name) for name in ("train", "valid", "test")]
    assert [[example.target for example in part] for part in parts] == [[1.0, 4.0], [2.0], [3.0]]
    assert (data.meta["lowest"], data.meta["highest"]) == (1.0, 5.0)


def test_words_are_made_as_meta_says(prepare, place):
    prepare("--task nli --train @train --valid @valid --keep-case --split-words")
    data = Folder(place / "data")
    text = "Don't re-pour"
    assert data.tokens(text) == ("Do", "n", "'", "t", "re", "-", "pour")
    assert data.examples("train")[0].sentences[0] == ("Cats", "sleep", ".")


def test_longer_training_examples_are_left_out(prepare, place):
    (place / "corpus" / "long").write_text(TRAIN + "neutral\tA\t" + "tea " * 10_000 + "\n")
    done = prepare("--task nli --train @long --valid @long --length-percentile 85")
    assert "left out 1 longer training examples" in done.stdout
    data = Folder(place / "data")
    assert [len(data.examples(name)) for name in ("train", "valid")] == [4, 5]
    assert data.meta["lengths"]["valid"]["longest"] == 10_000


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--task nli --train @none --valid @valid", "there is no file corpus/none"),
        ("--task nli --train @classes --valid @valid", "corpus/classes begins with '0 tea"),
        ("--task classification --train @classes --folds 33", "--folds is 33, but must be from 3"),
        ("--task classification --train @trees --folds 3 --sst-repeat", "--folds 3 has none"),
        ("--task classification --train @classes --valid @classes --sst-repeat",
         "--sst-repeat is given, but no file has trees"),
        ("--task classification --train @classes --folds 2", "--folds is 2, but must be from 3"),
        ("--task classification --train @classes --folds 4 --test @classes", "leave out --valid,"),
        ("--task classification --train @classes --folds 4 --valid-share 0", "leave out --valid,"),
        ("--task classification --train @classes --folds 4 --seed -1", "--seed -1 is not allowed"),
        ("--task nli --train @train --select-on-test", "--select-on-test needs --test, or --folds"),
        ("--task nli --train @train --valid @valid --test @valid --select-on-test",
         "--select-on-test makes the test data choose: leave out --valid"),
        ("--task nli --train @train --valid @valid --valid-share 0.1", "training data without --v"),
        ("--task nli --train @train --valid-share 1.5", "--valid-share is 1.5, but must be more"),
        ("--task nli --train @train --valid @valid --sst binary", "--sst is binary, but no file"),
        ("--task nli --train @train --valid @valid --length-percentile 0",
         "--length-percentile is 0, but must be more than 0 and at most 100"),
        ("--task relatedness --train @long --length-percentile 1", "1, which leaves no example"),
        ("--task nli --train @train --valid @valid --label-column gold",
         "needs gold, but there are only: label, premise, hypothesis"),
        ("--task classification --train @classes --valid @classes --label-column x",
         "--label-column is x, but corpus/classes is no table"),
        ("--task classification --train @trees", "trees need --valid"),
        ("--task classification --train @trees @classes --valid @trees", "do not go together"),
        ("--task classification --train @one --valid @one", "one class only: 1"),
        ("--task nli --train @train --valid @valid --vectors @vectors @two",
         "--vectors: corpus/two has vectors of 2 numbers, but corpus/vectors of 3"),
        ("--task nli --train @train --valid @valid --vectors @other",
         "corpus/other has no vector of any word of the data"),
        ("--task nli --train @train --valid @valid --vectors @train", "corpus/train, line 1: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(prepare, place, line, sentence):
    (place / "corpus" / "one").write_text("1 tea\n1 milk\n")
    (place / "corpus" / "two").write_text("cats 1 2\n")
    (place / "corpus" / "long").write_text("text1\ttext2\tscore\n" + "a\tb c\t1\n" * 20)
    (place / "corpus" / "other").write_text("zebra 1 2\n")
    refused(prepare(line), place, sentence)


def test_a_broken_folder_is_one_sentence(prepare, place):
    prepare("--task nli --train @train --valid @valid --vectors @vectors").ok()
    data = place / "data"
    with pytest.raises(UserError, match="has no part 'test'; there are: train, valid"):
        Folder(data).examples("test")
    with pytest.raises(UserError, match="--fold is 0, but .* was prepared without --folds"):
        Folder(data).examples("train", 0)
    for text in ('{"sentences": [["a"]], "target": "x"}', "{}", "x", '{"sentences": 1}'):
        (data / "train.jsonl").write_text(text + "\n")
        with pytest.raises(UserError, match="train.jsonl, line 1: no example of the task nli"):
            Folder(data).examples("train")
    whole = (data / "vectors.npz").read_bytes()
    for content in (b"PK", whole[:-1]):
        (data / "vectors.npz").write_bytes(content)
        with pytest.raises(UserError, match="vectors.npz cannot be read"):
            Folder(data).vectors()
    for text in ("[]", "{}", '{"version": 9, "kind": "nli"}', '{"version": 1, "kind": "x"}'):
        (data / "meta.json").write_text(text)
        with pytest.raises(UserError, match="meta.json is not of `prepare sentences` with version"):
            Folder(data)
    (data / "meta.json").unlink()
    with pytest.raises(
        UserError, match="meta.json cannot be read .*; give a folder that .selfattn prepare s"
    ):
        Folder(data)


# The official sizes of the files that a README beside them tells of.
CORPORA = os.environ.get("SELFATTN_SENTENCES", "")
SIZES = [
    ("nli", "snli/train", 21_601), ("nli", "snli/dev", 9_842),
    ("nli", "snli/counterfactual_train", 6_664), ("nli", "snli/counterfactual_dev", 800),
    ("nli", "multinli/train_lil", 44_983), ("nli", "multinli/valid_lil", 1_996),
    ("nli", "multinli/dev_matched", 9_815), ("relatedness", "sick/train", 4_500),
    ("relatedness", "sick/dev", 500), ("relatedness", "sick/test", 4_927),
    ("nli", "sick/test", 4_927), ("classification", "classification/cr", 3_774),
    ("classification", "classification/mpqa", 10_605),
    ("classification", "classification/mr", 10_662),
    ("classification", "classification/trec_train", 5_452),
    ("classification", "classification/trec_test", 500), ("classification", "sst/train", 8_544),
    ("classification", "sst/dev", 1_101), ("classification", "sst/test", 2_210),
    ("binary", "sst/train", 6_920), ("binary", "sst/dev", 872), ("binary", "sst/test", 1_821),
    ("phrases", "sst/train", 318_582), ("selection", "squad/selection_train", 11_877),
    ("selection", "squad/selection_dev", 9_380),
]  # fmt: skip


@pytest.mark.skipif(not CORPORA, reason="SELFATTN_SENTENCES names no folder of corpora")
@pytest.mark.parametrize(("kind", "name", "size"), SIZES)
def test_the_corpora_have_their_published_sizes(kind, name, size):
    (path,) = Path(CORPORA, name).parent.glob(f"{Path(name).name}.*")
    reading = Reading(sst="binary" if kind == "binary" else None, phrases=kind == "phrases")
    kind = "classification" if kind in ("binary", "phrases") else kind
    corpus = read(path, Kind(kind), reading)
    assert len(corpus.examples) == size
    assert corpus.recoded == 0 and set(corpus.dropped) <= {"neutral"}
    for example in corpus.examples:
        for words in example.sentences:
            # Tokenised text is tokenised text.
            assert reading.tokens(" ".join(words)) == words
    assert json.loads(corpus.examples[0].line())["target"] == corpus.examples[0].target
