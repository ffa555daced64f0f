"""scripts/prepare_conll05.py on a tiny Treebank and tiny archives of the real layout."""

import gzip
import json
import shutil
import sys

import pytest

from selfattn_tasks.srl.formats import conll
from tests.conftest import pack
from tests.scripts import conftest

# A tree with a trace, and one with a parenthesis and a slash; their words and their propositions.
TREES = """
( (S (NP-SBJ-1 (DT The) (NN baker)) (VP (VBD wanted) (S (NP-SBJ (-NONE- *-1))
    (VP (TO to) (VP (VB sleep))))) (. .)) )
( (S (-LRB- -LRB-) (NP-SBJ (NN tea) ) (VP (VBD cost) (NP (CD 1\\/2) (NN coin))) (-RRB- -RRB-) ) )
"""
WORDS = ["The baker wanted to sleep .".split(), "( tea cost 1/2 coin )".split()]
PROPS = """\
-      (A0*   (A0*
-      *)     *)
want   (V*)   *
-      (A1*   *
sleep  *)     (V*)
-      *      *

-      *
-      (A1*)
cost   (V*)
-      (A2*
-      *)
-      *

"""
TEST_WORDS = "\n".join("\n".join([*words, ""]) for words in WORDS)
SECTIONS = [f"{i:02}" for i in range(2, 22)]


@pytest.fixture
def layout(tmp_path):
    """The files of both archives by name, and a Treebank below ``tmp_path``."""
    for section in [*SECTIONS, "24"]:
        folder = tmp_path / "treebank" / "parsed" / "mrg" / "wsj" / section
        folder.mkdir(parents=True)
        trees = TREES.split("\n( ")
        # Two files: the order of the sentences is the order of the names.
        (folder / f"wsj_{section}01.mrg").write_text("*x* a notice (\n( " + trees[1])
        (folder / f"wsj_{section}02.mrg").write_text("( " + trees[2])
    # Sections of other kinds carry the same names.
    (tmp_path / "treebank" / "raw" / "wsj" / "02").mkdir(parents=True)
    release = {f"train/props/train.{section}.props.gz": PROPS for section in SECTIONS}
    release["devel/props/devel.24.props.gz"] = PROPS
    release["train/synt.cha/train.02.synt.cha.gz"] = "not read"
    tests = {}
    for name in ("test.wsj", "test.brown"):
        tests[f"{name}/props/{name}.props.gz"] = PROPS
        tests[f"{name}/words/{name}.words.gz"] = TEST_WORDS
    return {"conll05st-release.tar.gz": release, "conll05st-tests.tar.gz": tests}


def write_archives(layout, folder):
    for archive, files in layout.items():
        packed = {f"conll05st-release/{n}": gzip.compress(t.encode()) for n, t in files.items()}
        pack(folder / archive, packed)


@pytest.fixture
def build(layout, tmp_path, run_cli):
    def run(*args, treebank=("--treebank", "treebank")):
        write_archives(layout, tmp_path)
        words = [*treebank, "--archive", *layout, "--dest", "out", *args]
        return run_cli(["scripts/prepare_conll05.py", *words], cwd=tmp_path)

    return run


def refused(done, tmp_path, *words):
    conftest.refused(done, "prepare_conll05.py: error: ", *words)
    assert not [path for path in tmp_path.iterdir() if "out" in path.name]


def test_all_parts_are_built(build, tmp_path):
    done = build("--any-counts").ok()
    assert "train         02:      2 sentences,      12 tokens,      3 propositions" in done.stdout
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["counts.json"]
        + [
            f"{n}.{e}"
            for n in ("train", "dev", "test.wsj", "test.brown")
            for e in ("conll", "props")
        ]
    )
    train = conll.read(out / "train.conll")
    assert [list(sentence.words) for sentence in train] == WORDS * 20
    dev = conll.read(out / "dev.conll")
    assert dev == conll.read(out / "test.brown.conll") == train[:2]
    assert [p.lemma for sentence in dev for p in sentence.propositions] == ["want", "sleep", "cost"]
    assert [p.predicate for sentence in dev for p in sentence.propositions] == [2, 4, 2]
    counts = json.loads((out / "counts.json").read_text())
    assert counts["train"]["total"] == [40, 240, 60]
    assert counts["dev"] == {"24": [2, 12, 3], "total": [2, 12, 3]}
    props = (out / "dev.props").read_text().split()
    assert props == PROPS.split()


def test_an_escaped_slash_stays_where_the_archives_escape_it(build, layout, tmp_path):
    for name in ("test.wsj", "test.brown"):
        key = f"{name}/words/{name}.words.gz"
        tests = layout["conll05st-tests.tar.gz"]
        tests[key] = tests[key].replace("1/2", "1\\/2").replace("(", "-LRB-")
    build("--any-counts").ok()
    words = conll.read(tmp_path / "out" / "train.conll")[1].words
    assert words == ("-LRB-", "tea", "cost", "1\\/2", "coin", "-RRB-")


def test_other_counts_than_the_published_ones_are_refused(build, tmp_path):
    refused(build(), tmp_path, "train has 40 sentences, 240 tokens and 60 propositions",
            "39,832 sentences, 950,028 tokens and 90,750 propositions are published")  # fmt: skip


def test_everything_that_is_missing_is_named_at_once(build, layout, tmp_path):
    shutil.rmtree(tmp_path / "treebank" / "parsed" / "mrg" / "wsj" / "07")
    shutil.rmtree(tmp_path / "treebank" / "parsed" / "mrg" / "wsj" / "24")
    del layout["conll05st-release.tar.gz"]["train/props/train.11.props.gz"]
    del layout["conll05st-tests.tar.gz"]["test.brown/words/test.brown.words.gz"]
    refused(build("--any-counts"), tmp_path, "missing: words of the sections 07, 24 (no folder",
            "; train/props/train.11.props.gz, test.brown/words/test.brown.words.gz (not in "
            "--archive conll05st-release.tar.gz, conll05st-tests.tar.gz)")  # fmt: skip
    refused(build("--any-counts", treebank=()), tmp_path, "sections 02, 03, ",
            "because --treebank is not given")  # fmt: skip


def test_words_in_the_archives_make_the_treebank_unneeded(build, layout, tmp_path):
    release = layout["conll05st-release.tar.gz"]
    for section in SECTIONS:
        release[f"train/words/train.{section}.words.gz"] = TEST_WORDS
    release["devel/words/devel.24.words.gz"] = TEST_WORDS
    build("--any-counts", treebank=()).ok()


def change(layout, old, new):
    release = layout["conll05st-release.tar.gz"]
    key = "train/props/train.05.props.gz"
    assert old in release[key]
    release[key] = release[key].replace(old, new)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda layout, wsj: change(layout, "-      *      *\n\n", "\n"),
            ["sentence 1 has 6 words in", "05/wsj_0501.mrg, line 2, but 5 rows in",
             "train.05.props.gz, line 1"],
        ),
        (
            lambda layout, wsj: change(layout, PROPS, PROPS + PROPS[:PROPS.index("\n\n")]),
            ["/05 has 2 sentences, but ", "train.05.props.gz has 3"],
        ),
        (
            lambda layout, wsj: change(layout, "cost   (V*)", "cost   (A0*)"),
            ["train.05.props.gz, line 10: the predicate in this line has no V span"],
        ),
        (
            lambda layout, wsj: (wsj / "05" / "wsj_0501.mrg").write_text("( (S (NN a)) \n"),
            ["wsj_0501.mrg, line 1: the tree that starts here is never closed"],
        ),
        (
            lambda layout, wsj: (wsj / "05" / "wsj_0501.mrg").write_text("( (NN a)) )\n"),
            ["wsj_0501.mrg, line 1: ) without a matching ("],
        ),
        (
            lambda layout, wsj: (wsj / "05" / "wsj_0501.mrg").write_text("( (NN a\nb))\n"),
            ["wsj_0501.mrg, line 2: 'b' follows the word of a leaf"],
        ),
        (
            lambda layout, wsj: (wsj / "05" / "wsj_0501.mrg").write_bytes(b"( (NN caf\xe9))\n"),
            ["wsj_0501.mrg, line 1", "not UTF-8"],
        ),
        (
            lambda layout, wsj: shutil.copytree(wsj / "05", wsj.parent / "copy" / "05"),
            ["both", "hold section 05: name a folder"],
        ),
    ],
    ids=["rows", "sentences", "no-v", "open", "close", "leaf", "encoding", "twice"],
)  # fmt: skip
def test_what_does_not_fit_is_named_and_nothing_is_written(build, layout, tmp_path, spoil, words):
    spoil(layout, tmp_path / "treebank" / "parsed" / "mrg" / "wsj")
    refused(build("--any-counts"), tmp_path, *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no file or folder bad"),
        (b"text", "cannot be read"),
        (b"\x1f\x8b\x08", "cannot be read"),
    ],
    ids=["none", "text", "gzip"],
)
def test_bad_archives_are_named(run_cli, tmp_path, content, words):
    if content is not None:
        (tmp_path / "bad").write_bytes(content)
    script = "scripts/prepare_conll05.py"
    done = run_cli([script, "--archive", "bad", "--dest", "out"], cwd=tmp_path)
    refused(done, tmp_path, "--archive: ", words)


def test_a_download_that_broke_off_is_named(build, tmp_path, run_cli):
    build("--any-counts", "--dest", "first").ok()
    archive = tmp_path / "conll05st-release.tar.gz"
    content = archive.read_bytes()
    archive.write_bytes(content[: len(content) // 2])
    script = "scripts/prepare_conll05.py"
    done = run_cli([script, "--archive", archive.name, "--dest", "out"], cwd=tmp_path)
    refused(done, tmp_path, "conll05st-release.tar.gz cannot be read as a whole .tar.gz archive")


def test_the_example_takes_text_of_other_counts_only_if_told(build, tmp_path, run_cli):
    build("--any-counts", "--dest", "data.text").ok()
    command = ["examples/srl_conll05/prepare.sh", "treebank", ".", "data"]
    options = {"python": "bash", "cwd": tmp_path, "PYTHON": sys.executable}
    done = run_cli(command, **options)
    assert done.returncode == 2 and "train has 40 sentences, 240 tokens and" in done.stderr
    assert done.stderr.endswith("ANY_COUNTS=1) accepts them\n") and not (tmp_path / "data").exists()
    run_cli(command, **options, ANY_COUNTS="1").ok()


@pytest.mark.slow
@pytest.mark.fairseq
def test_the_example_from_archives_to_scores(layout, tmp_path, run_cli):
    """The scripts of examples/srl_conll05 with a smaller model."""
    write_archives(layout, tmp_path)
    (tmp_path / "glove.txt").write_text("tea 0.1 0.2\nbaker 0.3 -0.1\n")
    options = {"python": "bash", "cwd": tmp_path, "PYTHON": sys.executable, "ANY_COUNTS": "1"}

    def run(script, *args):
        return run_cli([f"examples/srl_conll05/{script}", *args], **options).ok().stdout

    run("prepare.sh", "treebank", ".")
    smaller = "--encoder-layers 1 --encoder-embed-dim 16 --encoder-attention-heads 2"
    args = f"deepatt_mtsa 1 glove.txt data-bin/conll05 run --max-update 2 {smaller}"
    run("train.sh", *args.split())
    shown = run("evaluate.sh", "run")
    assert shown.count("Number of Propositions :           3") == 3
    gold = conll.read(tmp_path / "data-bin" / "conll05" / "test1.conll")
    tagged = conll.read(tmp_path / "run" / "test1.props", lenient=True)
    assert [len(s.propositions) for s in tagged] == [len(s.propositions) for s in gold]
