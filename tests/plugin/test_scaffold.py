"""--scaffold: trees of training sentences, learnt beside the labels; real runs."""

from dataclasses import replace

import pytest
import torch

from plugin.criterions._scaffold import Scaffold
from selfattn.config import MTSAConfig
from selfattn.errors import UserError
from selfattn_tasks import checkpoints
from selfattn_tasks.srl.formats.conllu import Tree
from selfattn_tasks.srl.tagger.network import Tagger, TaggerConfig
from selfattn_tasks.words.vocabulary import Vocabulary
from tests.plugin.helpers import TAGGER as FLAGS
from tests.plugin.helpers import logged, run_ranks, sentence, validate
from tests.plugin.srl_corpus import prepared, sentences

LAST = "checkpoint_last.pt"
IGNORED = -100


def rows(words) -> str:
    """A tree of our own: a word's part of speech is its last letter, its head the word before."""
    return "".join(
        f"{i}\t{word}\t_\t_\t{word[-1]}\t_\t{i - 1}\t{'dep' if i > 1 else 'root'}\t_\t_\n"
        for i, word in enumerate(words, 1)
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaffold")
    prepared(folder, train=(150, 1), valid=(30, 2))
    trees = [rows(each.words) for each in sentences(150, 1)]
    (folder / "trees.conllu").write_text("\n".join(trees))
    (folder / "few.conllu").write_text("\n".join(trees[:20]))
    (folder / "foreign.conllu").write_text(rows(sentences(1, 1)[0].words + ("indeed",)))
    other = "\n".join(trees).replace("\tdep\t", "\tother\t")
    (folder / "other.conllu").write_text(other)
    return folder


@pytest.fixture(scope="module")
def train(corpus, run_cli):
    """A function that trains and returns the finished process."""

    def run(save_dir, *flags):
        command = ["-m", "fairseq_cli.train", corpus / "data", *FLAGS, "--save-dir", save_dir]
        return run_cli([*command, *flags])

    return run


@pytest.fixture(scope="module")
def trained(train, corpus):
    """The folder of a run with trees, and its log."""
    folder = corpus / "run"
    done = train(folder, "--scaffold", corpus / "trees.conllu", "--max-epoch", "4").ok()
    return folder, done.lines


def test_it_is_learnt_beside_the_labels(trained):
    folder, lines = trained
    found = logged(lines, "train_inner")
    first, last = (float(found[i]["scaffold_loss"]) for i in (0, -1))
    assert last < 0.5 * first
    assert {float(record["scaffold_seen"]) for record in found} == {100.0}
    assert "valid_scaffold_loss" not in logged(lines, "valid")[-1], "validation has no trees"
    state = checkpoints.read(folder / LAST)
    assert not any("scaffold" in name for name in state["model"])
    assert any(name.startswith("scaffold.classifiers") for name in state["criterion"])


def test_it_changes_the_training(trained, train, tmp_path):
    without = logged(train(tmp_path, "--max-epoch", "1").ok().lines, "train_inner")
    with_trees = logged(trained[1], "train_inner")
    assert without[0]["loss"] == with_trees[0]["loss"], "the same start, and the labels' loss alone"
    assert without[3]["loss"] != with_trees[3]["loss"]


def test_a_checkpoint_needs_no_trees(trained, corpus, run_cli, tmp_path):
    folder, lines = trained
    moved = corpus / "trees.conllu"
    moved.rename(tmp_path / "moved.conllu")
    try:
        valid = validate(run_cli, corpus / "data", folder / LAST)
        assert valid["valid_f1"] == logged(lines, "valid")[-1]["valid_f1"]
    finally:
        (tmp_path / "moved.conllu").rename(moved)
    run_cli(["scripts/predict_srl.py", folder / LAST, "--input", corpus / "valid.conll",
             "--output", tmp_path / "out.conll"]).ok()  # fmt: skip


def test_a_training_goes_on(trained, train, corpus, tmp_path):
    """Interrupted after two epochs, it logs what the whole one logged."""
    flags = ("--scaffold", corpus / "trees.conllu")
    train(tmp_path, *flags, "--max-epoch", "2").ok()
    resumed = logged(train(tmp_path, *flags, "--max-epoch", "4").ok().lines, "train_inner")
    whole = logged(trained[1], "train_inner")[-len(resumed) :]
    for one, other in zip(resumed, whole, strict=True):
        assert (one["loss"], one["scaffold_loss"]) == (other["loss"], other["scaffold_loss"])


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], "was trained with weights of its criterion (--scaffold), but this command leaves it"),
        (["--scaffold", "other.conllu"], "--scaffold has other labels than the checkpoint was"),
    ],
    ids=["without", "others"],
)
def test_a_training_does_not_go_on_with_other_trees(trained, train, corpus, flags, expected):
    flags = [corpus / flag if flag.endswith("conllu") else flag for flag in flags]
    assert expected in sentence(train(trained[0], *flags, "--max-epoch", "5"))


def test_from_one_training_to_another(trained, train, corpus, tmp_path):
    """With trees from one without, and without from one with."""
    old, plain = trained[0] / LAST, tmp_path / "plain"
    train(plain, "--finetune-from-model", old, "--max-update", "1").ok()
    trees = ("--scaffold", corpus / "few.conllu", "--max-update", "2")
    assert "was trained without weights of its criterion" in sentence(train(plain, *trees))
    done = train(tmp_path / "new", "--finetune-from-model", plain / LAST, *trees).ok()
    found = logged(done.lines, "train_inner")[0]
    assert 0 < float(found["scaffold_seen"]) < 100


def test_where_predicates_are_marked_late(train, corpus, tmp_path):
    """The layer then has a row for each sentence, not for each proposition."""
    flags = ("--late-layers", "1", "--target", "both", "--bf16", "--max-epoch", "2")
    done = train(tmp_path, "--scaffold", corpus / "trees.conllu", *flags).ok()
    found = logged(done.lines, "train_inner")
    assert float(found[-1]["scaffold_loss"]) < float(found[0]["scaffold_loss"])
    assert {float(record["scaffold_seen"]) for record in found} == {100.0}


def test_two_processes_equal_one(train, corpus, run_cli, tmp_path):
    """Also where few sentences have trees; fairseq wraps a criterion that has weights."""
    flags = ["--scaffold", corpus / "few.conllu", "--max-update", "4", "--disable-validation"]
    flags += ["--dropout", "0", "--attention-dropout", "0", "--activation-dropout", "0"]
    flags += ["--embedding-dropout", "0"]
    alone = logged(train(tmp_path / "one", *flags, "--update-freq", "2").ok().lines, "train_inner")
    command = [corpus / "data", *FLAGS, "--save-dir", tmp_path / "two", *flags]
    lines = [line for output in run_ranks(run_cli, command) for line in output.splitlines()]
    for one, two in zip(alone, logged(lines, "train_inner"), strict=True):
        for name in ("loss", "scaffold_loss", "scaffold_seen"):
            assert float(two[name]) == pytest.approx(float(one[name]), abs=2e-3)
    assert all(0 < float(record["scaffold_seen"]) < 100 for record in alone)
    states = [checkpoints.read(tmp_path / name / LAST)["criterion"] for name in ("one", "two")]
    for name, value in states[0].items():
        if torch.is_tensor(value):
            torch.testing.assert_close(states[1][name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_whole_sequences(train, corpus, tmp_path):
    flags = ("--criterion", "bio_crf", "--eval-decoder", "strict", "--max-epoch", "2")
    done = train(tmp_path, "--scaffold", corpus / "trees.conllu", *flags).ok()
    found = logged(done.lines, "train_inner")
    assert float(found[-1]["scaffold_loss"]) < float(found[0]["scaffold_loss"])


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--scaffold", "none.conllu"], "none.conllu"),
        (["--scaffold", "train.conll"], "is not a word's number"),
        (["--scaffold", "foreign.conllu"], "foreign.conllu holds no sentence of"),
        (["--scaffold-weight", "0"], "--scaffold-weight 0.0 is not allowed; it must be above 0"),
        (
            ["--scaffold", "few.conllu", "--scaffold-layer", "3"],
            "--scaffold-layer 3 is not allowed; it must be from 1 to 2, or 0 for the middle one",
        ),
    ],
)
def test_mistakes(train, corpus, tmp_path, flags, expected):
    flags = [corpus / flag if ".conll" in flag else flag for flag in flags]
    assert expected in sentence(train(tmp_path, *flags, "--max-update", "1"))


TREES = [
    Tree("a", ("we", "ran"), ("P", "V"), ("1", "root"), ("subj", "_")),
    Tree("b", ("tea",), ("N",), ("_",), ("x",)),
    Tree("c", ("we", "ran"), ("X", "X"), ("root", "root"), ("x", "x")),
]
SENTENCES = [tree.words for tree in TREES]
VOCABULARY = Vocabulary(("we", "ran", "tea"), ("O",))  # rows 2, 3 and 4
SIZES = TaggerConfig(5, 7, MTSAConfig.make("srl"), word_dim=4, predicate_dim=4, heads=2, layers=3)


def test_targets():
    """The first of two trees counts; none, unknown values and padding do not."""
    scaffold = Scaffold(TREES, SENTENCES, VOCABULARY, SIZES, 0, "trees")
    assert scaffold.layer == 2
    assert scaffold.labels == [["N", "P", "V", "X"], ["1", "root"], ["subj", "x"]]
    found = scaffold.targets(torch.tensor([[2, 3, 0], [4, 0, 0], [2, 4, 3]]))
    assert found.tolist() == [
        [[1, 2, IGNORED], [0, IGNORED, IGNORED], [IGNORED] * 3],
        [[0, 1, IGNORED], [IGNORED] * 3, [IGNORED] * 3],
        [[0, IGNORED, IGNORED], [1, IGNORED, IGNORED], [IGNORED] * 3],
    ]


def test_unknown_words_give_no_sentence_another_s_tree():
    """Row 1 stands for all of them."""
    same = Tree("d", ("hi", "tea"), ("V", "N"), ("root", "1"), ("_", "x"))
    other = Tree("e", ("so", "tea"), ("P", "N"), ("root", "1"), ("_", "x"))
    rows = torch.tensor([[1, 4]])
    for seen, trees, found in (
        ([("hi", "tea")], [same], True),
        ([("hi", "tea"), ("so", "tea")], [same], False),
        ([("so", "tea"), ("hi", "tea")], [same], False),
        ([("hi", "tea"), ("so", "tea")], [same, other], False),
        ([("hi", "tea"), ("so", "tea")], [same, replace(other, tags=same.tags)], True),
    ):
        scaffold = Scaffold(trees, seen, VOCABULARY, SIZES, 0, "trees")
        assert bool((scaffold.targets(rows) != IGNORED).any()) == found


def test_the_loss_and_whom_it_teaches():
    """The sum of three cross-entropies; layers above get nothing of it."""
    torch.manual_seed(1)
    scaffold, tagger = Scaffold(TREES, SENTENCES, VOCABULARY, SIZES, 1, "trees"), Tagger(SIZES)
    words = torch.tensor([[2, 3], [4, 0]])
    hidden = []
    tagger.layers[0].register_forward_hook(lambda *call: hidden.append(call[-1]))
    tagger(words, torch.zeros_like(words), words == 0)
    loss, figures = scaffold(hidden[0], words)
    of = [classifier(hidden[0]).log_softmax(-1) for classifier in scaffold.classifiers]
    expected = of[0][0, 0, 1] + of[0][0, 1, 2] + of[0][1, 0, 0]  # P V, N
    expected = expected + of[1][0, 0, 0] + of[1][0, 1, 1]  # 1 root
    expected = expected + of[2][0, 0, 0] + of[2][1, 0, 1]  # subj, x
    torch.testing.assert_close(loss, -expected)
    assert {name: int(x) for name, x in figures.items() if name != "scaffold_loss"} == {
        "scaffold_learnt": 3, "scaffold_words": 3,
    }  # fmt: skip
    loss.backward()
    assert tagger.layers[0].expand.weight.grad.abs().max() > 0
    assert all(p.grad is None for p in tagger.layers[1].parameters())
    nothing, _ = scaffold(hidden[0].detach(), torch.tensor([[3, 3], [3, 0]]))
    assert nothing == 0 and nothing.requires_grad, "processes without a tree have gradients, too"


def test_other_labels_are_refused():
    state = Scaffold(TREES, SENTENCES, VOCABULARY, SIZES, 0, "trees").state_dict()
    with pytest.raises(UserError, match="--scaffold has other labels"):
        Scaffold(TREES[1:], SENTENCES, VOCABULARY, SIZES, 0, "trees").load_state_dict(state)
