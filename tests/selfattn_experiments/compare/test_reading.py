"""What is read, refused and doubted, on files made up here."""

import json
import random
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

pytest.importorskip("sacrebleu")
pytest.importorskip("scipy")

from selfattn.errors import UserError
from selfattn_experiments.compare.compare import Request, compare
from selfattn_experiments.compare.reading import read_gold
from selfattn_experiments.compare.rendering.files import to_markdown
from selfattn_experiments.compare.results import Settings
from selfattn_experiments.compare.runs import (
    few_runs,
    few_sentences,
    name_logs,
    name_systems,
    name_test_sets,
)
from selfattn_tasks.folder import sha256_of
from selfattn_tasks.registry import TASKS
from selfattn_tasks.sentences.metrics import Answer

WORDS = "Der alte Kater schläft neben dem roten Boot, und 3,5 Enten schwimmen leise vorbei".split()


@pytest.fixture
def folder(tmp_path):
    """60 references, and runs a1, a2, b1, b2 with some words changed."""
    rng = random.Random(8)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(3, 25))) + "." for _ in range(60)]
    write(tmp_path / "ref.de", references)
    for name in ("a1", "a2", "b1", "b2"):
        lines = [
            " ".join(word if rng.random() < 0.8 else rng.choice(WORDS) for word in line.split())
            for line in references
        ]
        write(tmp_path / f"{name}.out", lines)
    return tmp_path


def write(path, lines):
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def lines_of(path):
    return path.read_text("utf-8").splitlines()


SETTINGS = Settings("", (), samples=100)


def run(folder, *patterns, **options):
    systems = name_systems([f"{folder}/{pattern}" for pattern in patterns or ("a*.out", "b*.out")])
    references = [("test", folder / "ref.de")]
    options = {"task": "auto", "metrics": ["bleu"], "settings": SETTINGS} | options
    return compare(Request(systems, references, **options))


def doubts(report):
    """The warnings but that there are few runs, and what follows for their intervals."""
    few = "fewer than 3", "holds scores that do not exist"
    return [text for text in report.warnings if not any(words in text for words in few)]


def test_good_files_raise_no_doubts(folder):
    assert doubts(run(folder)) == []


def test_runs_of_two_processors_are_a_warning(folder):
    for name, processors in (("a1", ["old", "new"]), ("a2", ["new"]), ("b1", ["new", "new"])):
        (folder / name).mkdir()
        (folder / f"{name}.out").rename(folder / name / "out")
        attempts = [
            {"step": "train", "cpu": processor, "versions": {"torch": "2.13"}}
            for processor in processors
        ]
        record = {"system": name[0], "seed": name[1], "commits": ["abc"], "attempts": attempts}
        (folder / name / "run.json").write_text(json.dumps(record))
    (doubt,) = doubts(run(folder, "a[12]/out", "b1/out"))
    assert doubt == "the runs differ in processor: 2 with new; 1 with old, new"


def test_runs_of_one_system_that_are_none_are_warnings(folder):
    """Another learning rate, another checkpoint, and a file that somebody has edited."""
    for name, rate, checkpoint in (
        ("a1", "0.1", "best"),
        ("a2", "0.2", "best"),
        ("b1", "1", "last"),
    ):
        (folder / name).mkdir()
        output = (folder / f"{name}.out").rename(folder / name / "out")
        record = {
            "system": name[0],
            "seed": name[1],
            "training": {"seed": name[1], "data": "x", "flags": {"--lr": [rate]}},
            "test": {"flags": {}, "checkpoint": checkpoint, "tests": {}},
            "hypotheses": {"test": {"file": "out", "sha256": sha256_of(output)}},
        }
        (folder / name / "run.json").write_text(json.dumps(record))
    write(folder / "a2" / "out", lines_of(folder / "b2.out"))
    changed, trained, tested = doubts(run(folder, "a[12]/out", "b1/out"))
    assert changed.endswith("a2/out is not the file that run.json beside it was written for")
    assert "its runs were not trained alike: " in trained
    assert trained.endswith("a2/out differ in --lr 0.1 and 0.2")
    assert "the runs were not tested alike: " in tested
    assert tested.endswith("b1/out differ in checkpoint best and last")


@pytest.mark.parametrize("part", ["x", {}, {"flags": "--lr 1"}, {"flags": {"--lr": "0.1"}}])
def test_a_record_that_somebody_has_written_by_hand_says_nothing(folder, part):
    (folder / "a1").mkdir()
    (folder / "a1.out").rename(folder / "a1" / "out")
    record = {"system": "a", "seed": 1, "training": part, "test": part}
    record["hypotheses"] = {"test": {"file": "out"}, "other": part}
    (folder / "a1" / "run.json").write_text(json.dumps(record))
    assert doubts(run(folder, "a1/out", "b*.out")) == []
    record["hypotheses"]["test"]["sha256"] = ["of", "two"]
    (folder / "a1" / "run.json").write_text(json.dumps(record))
    (doubt,) = doubts(run(folder, "a1/out", "b*.out"))
    assert doubt.endswith("out is not the file that run.json beside it was written for")


def test_runs_that_differ_in_blanks_only_are_one(folder):
    write(folder / "a2.out", [f"{line} \t" for line in lines_of(folder / "a1.out")])
    with pytest.raises(UserError, match=r"a1\.out and .*a2\.out hold the same output, so they are"):
        run(folder)


def test_one_file_in_both_systems_is_refused(folder):
    with pytest.raises(UserError, match=r"b1\.out is a run of .* and of .*: a file belongs to one"):
        run(folder, "[ab]1.out", "b*.out")
    with pytest.raises(UserError, match=r"b1\.out is a run of x and of y: a file belongs to one"):
        systems = name_systems([f"{folder}/a*.out", f"x={folder}/b*.out", f"y={folder}/b1.out"])
        compare(Request(systems, [("test", folder / "ref.de")], "auto", ["bleu"], SETTINGS))


def test_training_on_other_data_or_for_longer_is_a_warning(folder):
    for name, data, updates in (("a1", "x", "100"), ("a2", "x", "100"), ("b1", "y", "200")):
        (folder / name).mkdir()
        (folder / f"{name}.out").rename(folder / name / "out")
        training = {"data": data, "flags": {"--max-update": [updates]}}
        record = {"system": name[0], "seed": name[1], "training": training}
        (folder / name / "run.json").write_text(json.dumps(record))
    assert doubts(run(folder, "a[12]/out", "b1/out")) == [
        "the runs were trained with different data: 2 with x; 1 with y",
        "the runs were trained with different --max-update: 2 with 100; 1 with 200",
    ]


def test_a_missing_package_is_one_sentence(folder, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setattr("selfattn_experiments.compare.compare.version", missing)
    with pytest.raises(UserError, match="sacrebleu"):
        run(folder)


def test_a_copy_in_the_other_system_is_a_warning(folder):
    (folder / "b1.out").write_bytes((folder / "a1.out").read_bytes())
    (doubt,) = doubts(run(folder))
    assert "a1.out and " in doubt and "b1.out hold the same output; if that is one run" in doubt


def test_copies_of_all_files_are_a_warning(folder):
    for i in (1, 2):
        (folder / f"b{i}.out").write_bytes(
            (folder / f"a{i}.out").read_bytes().replace(b"\n", b" \n")
        )
    assert len(doubts(run(folder))) == 2


def test_a_system_against_itself_stays_possible(folder):
    report = run(folder, "a*.out", "a*.out")
    (found,) = report.comparisons
    assert found.same_files and doubts(report) == []
    assert found.welch.p == found.permutation.p == found.sentence.bootstrap_p == 1
    report = run(folder, "b*.out", "a*.out", "b*.out")
    other, itself = report.comparisons
    assert itself.same_files and itself.p_holm == 1
    assert "for its 1 comparison," in to_markdown(report)
    assert other.p_holm == other.welch.p  # the check is no test that others pay for


@pytest.mark.parametrize("marked", ["a1.out", "ref.de"])
def test_a_byte_order_mark_is_no_part_of_the_text(folder, marked):
    expected = [r.scores["BLEU"] for r in run(folder).runs]
    (folder / marked).write_bytes(b"\xef\xbb\xbf" + (folder / marked).read_bytes())
    report = run(folder)
    assert [r.scores["BLEU"] for r in report.runs] == expected
    (doubt,) = doubts(report)
    assert doubt.endswith(f"{marked} starts with a byte order mark, which is skipped")


@pytest.mark.parametrize(
    ("remains", "words"),
    [
        ("<unk>", "3 of 60 translations contain '<unk>'"),
        ("&quot;", "contain entities such as '&quot;' (escaped text), but 0 references do"),
        ("&#124;", "contain entities"),
        ("##ing", "contain '##' before a piece"),
        ("@-@", "contain '@-@' (tokenised text)"),
    ],
)
def test_remains_of_other_steps_are_counted(folder, remains, words):
    lines = lines_of(folder / "a1.out")
    write(folder / "a1.out", [f"{line} {remains}" for line in lines[:3]] + lines[3:])
    (doubt,) = doubts(run(folder))
    assert words in doubt and "a1.out" in doubt


@pytest.mark.parametrize("order", ["reversed", "shuffled", "one line later"])
def test_another_order_of_lines_is_doubted(folder, order):
    lines = lines_of(folder / "a1.out")
    moved = {
        "reversed": lines[::-1],
        "shuffled": random.Random(1).sample(lines, len(lines)),
        "one line later": lines[-1:] + lines[:-1],
    }
    write(folder / "a1.out", moved[order])
    (doubt,) = doubts(run(folder))
    assert "do not follow those of the references" in doubt


def test_references_as_translations_are_doubted(folder):
    (folder / "a1.out").write_bytes((folder / "ref.de").read_bytes())
    assert "are the references themselves" in doubts(run(folder))[0]


@pytest.mark.parametrize(("mark", "scheme"), [("@@", "subword_nmt"), ("\u2581", "sentencepiece")])
def test_subwords_in_translations_alone_are_refused(folder, mark, scheme):
    lines = lines_of(folder / "b2.out")
    write(folder / "b2.out", [*lines[:7], f"Bo{mark} ot", *lines[8:]])
    with pytest.raises(
        UserError, match=rf"b2\.out: translation 8 .*'{mark}'.*--remove-bpe {scheme}"
    ):
        run(folder)
    # A reference that has the mark lets it pass: some texts do hold it.
    references = lines_of(folder / "ref.de")
    write(folder / "ref.de", [f"Bo{mark} ot", *references[1:]])
    doubt = doubts(run(folder))
    assert (
        len(doubt) == 1
        and "of 60 references contain" in doubt[0]
        and "scored as they are" in doubt[0]
    )


def test_empty_references_are_refused(folder):
    (folder / "ref.de").write_bytes(b"")
    with pytest.raises(UserError, match=r"ref\.de is empty, but needs at least one line"):
        run(folder)


def test_generated_output_of_other_references(folder):
    blocks = [
        f"T-{i}\t{text}\nH-{i}\t-1\t{text}\nD-{i}\t-1\t{text}\n"
        for i, text in enumerate(lines_of(folder / "a1.out"))
    ]
    (folder / "a1.out").write_text("".join(blocks[::-1]), "utf-8")
    with pytest.raises(UserError, match=r"a1\.out was generated for other references: of the 60"):
        run(folder)


def test_large_texts_are_not_read_as_roles(tmp_path, monkeypatch):
    """They would be split into the columns of one sentence, which takes ten times the memory."""
    monkeypatch.setattr("selfattn_tasks.srl.task._HEAD", 1000)
    (tmp_path / "gold.conll").write_text("We - (A0*)\npoured pour (V*)\ntea - (A1*)\n\n" * 40)
    assert read_gold(tmp_path / "gold.conll", "auto")[0] == "srl"
    monkeypatch.setattr("selfattn_tasks.srl.formats.conll.read", None)
    (tmp_path / "ref.de").write_text("Ein Boot - und | noch eins.\n" * 40, "utf-8")
    task, gold = read_gold(tmp_path / "ref.de", "auto")
    assert task == "translation" and len(gold) == 40


def test_few_runs_beside_many_and_few_sentences_are_warned_about():
    counts = {"base": 12, "one": 1, "two": 2, "three": 3, "four": 4}
    alone, two, beside_two, three = few_runs({name: [None] * n for name, n in counts.items()})
    assert alone.startswith("one: 1 run; fewer than 3") and two.startswith("two: 2 runs; fewer")
    assert beside_two.startswith("two: 2 runs against 12; Welch's test rests on the 2, and calls")
    assert three.startswith("three: 3 runs against 12;")
    assert few_runs({"base": [None] * 3, "more": [None] * 11}) == few_sentences("test", 30) == []
    (warning,) = few_sentences("test", 29)
    assert warning.startswith("test: 29 sentences; with fewer than 30 the bootstrap")
    assert TASKS["sentences"].count([Answer("yes"), Answer(None)]) == 1


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["runs/base-*/t.out", "runs/good-[0-9]*/t.out"], ["base", "good"]),
        (["a/seed*/{test}.out", "b/seed*/{test}.out"], ["a", "b"]),
        (["x=a/*.out", "y=b/*.out"], ["x", "y"]),
        (["m/seed*/t.out", "m/seed*/t.out"], ["m", "m (2)"]),
        (["/other/base-*/t.out", "runs/grid/good-[12].out"], ["base", "good"]),
        (["/u/base/t.out", "/u/good/t.out"], ["base", "good"]),
        (["./lr=0.1/*.out", "./lr=0.2/*.out"], ["lr=0.1", "lr=0.2"]),
    ],
)
def test_names_of_systems(arguments, names):
    assert [system.name for system in name_systems(arguments)] == names


def test_one_of_two_patterns_may_be_absolute():
    systems = name_systems(["base/t.out", f"{Path.cwd()}/good/t.out"])
    assert [system.name for system in systems] == ["base", "good"]


def test_names_given_twice_and_unknown_ones_are_refused():
    with pytest.raises(UserError, match="two systems have the name 'x'"):
        name_systems(["x=a/*", "x=b/*"])
    with pytest.raises(UserError, match="two test sets named 'test'"):
        name_test_sets(["a/test.de", "b/test.de"])
    with pytest.raises(UserError, match="NAME of x, y"):
        name_logs(["z=*/train.log"], name_systems(["x=a/*", "y=b/*"]))
