"""examples/srl_ewt/build_data.py on two tiny repositories of the real layout."""

import json

import pytest

from selfattn_tasks.srl import Span
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.formats.conllu import read_trees

SKELETON = """\
google/ewt/{doc} 0 0 [WORD] PRP (TOP(S(NP*) - - * (ARG0*) *
google/ewt/{doc} 0 1 [WORD] VBD (VP* do do.01 (V*) * *
google/ewt/{doc} 0 2 [WORD] RB * - - * (ARGM-NEG*) *
google/ewt/{doc} 0 3 [WORD] VB (VP* pour pour_out.02 * (V* *
google/ewt/{doc} 0 4 [WORD] RP (PRT*) - - * *) *
google/ewt/{doc} 0 5 [WORD] DT (NP(NP* - - * (ARG1* (ARG1*
google/ewt/{doc} 0 6 [WORD] NN *)))) offer offer.01 * *) *)

google/ewt/{doc} 1 0 [WORD] UH (TOP*) - -

google/ewt/{doc} 2 0 [WORD] VB (TOP(S* have have.01 (V*)
google/ewt/{doc} 2 1 [WORD] NN (NP*))) - - (C-ARGM-TMP*)
"""
WORDS = """\
# newdoc id = answers-x_ans
# sent_id = answers-x_ans-0001
# text = ours
1\tThey\t_\t_\tPRP\t_\t_\t_\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\t_\t_\tVBD\t_\t_\taux\t_\t_
3\tn't\t_\t_\tRB\t_\t_\t_\t_\t_
4\tpour\t_\t_\tVB\t_\t_\t_\t_\t_
5\tout\t_\t_\tRP\t_\t_\t_\t_\t_
6\tany\t_\t_\tDT\t_\t_\t_\t_\t_
6.1\tcold\t_\t_\t_\t_\t_\t_\t_\t_
7\ttea\t_\t_\tNN\t_\t_\t_\t_\t_

# sent_id = answers-x_ans-0002
1\tNot\t_\t_\tUH\t_\t_\t_\t_\t_
2\ttwo\t_\t_\tUH\t_\t_\t_\t_\t_

# sent_id = answers-x_ans-0003
1\tHave\t_\t_\tVB\t_\t_\taux\t_\t_
2\tsome\t_\t_\tNN\t_\t_\t_\t_\t_
"""


@pytest.fixture
def build(tmp_path, run_cli):
    name = "answers/00/x_ans.xml"
    skeleton = tmp_path / "propbank" / "data" / "google" / "ewt" / f"{name}.gold_skel"
    words = tmp_path / "words" / "not-to-release" / "sources" / "answers" / "x_ans.xml.conllu"
    listed = tmp_path / "propbank" / "docs" / "evaluation" / "ewt.dev.txt"
    for path in (skeleton, words, listed):
        path.parent.mkdir(parents=True)
    skeleton.write_text(SKELETON.format(doc=name))
    words.write_text(WORDS)
    listed.write_text(f"{name}.conllu\n")

    def run(*flags):
        script = "examples/srl_ewt/build_data.py"
        args = ["--propbank", "propbank", "--words", "words", "--dest", "out", "--splits", "dev"]
        return run_cli([script, *args, *flags], cwd=tmp_path)

    run.skeleton, run.words, run.listed = skeleton, words, listed
    return run


def test_what_is_kept(build, tmp_path):
    done = build().ok()
    assert "dev   is NOT the file that the README's numbers are of" in done.stdout
    first, second = conll.read(tmp_path / "out" / "ewt-verbs.dev.conll")
    assert first.words == ("They", "did", "n't", "pour", "out", "any", "tea")
    # The auxiliary has no argument and the offer is a noun.
    (only,) = first.propositions
    assert (only.predicate, only.lemma) == (3, "pour_out")
    assert only.spans == (
        Span("A0", 0, 0), Span("AM-NEG", 2, 2), Span("V", 3, 4), Span("A1", 5, 6),
    )  # fmt: skip
    (main,) = second.propositions
    assert (main.lemma, main.spans[1].label) == ("have", "C-AM-TMP")
    counts = json.loads((tmp_path / "out" / "counts.json").read_text())["dev"]
    assert (counts["sentences"], counts["predicates"]) == (2, 2)
    assert counts["left out"] == {
        "auxiliaries": 1, "predicates that are no verbs": 1, "sentences with other tokens": 1,
    }  # fmt: skip
    # Of pour and Have the tags tell the first; Have is marked as an auxiliary there.
    assert counts["main verbs as predicates"] == {
        "correct": 1, "excess": 0, "missed": 1,
        "precision": 100, "recall": 50, "f1": pytest.approx(200 / 3),
    }  # fmt: skip
    assert "dev   by gold tags and dependencies alone: predicate F1 66.67" in done.stdout


def test_the_trees_of_training(build, tmp_path):
    """Nothing of another split; those of a document without annotation, too."""
    lists = build.listed.parent
    (lists / "ewt.train.txt").write_text("reviews/01/y.xml\nanswers/00/x_ans.xml\n")
    other = tmp_path / "words" / "not-to-release" / "sources" / "reviews" / "y.xml.conllu"
    other.parent.mkdir()
    other.write_text("# sent_id = reviews-y-0001\n1\tFine\t_\t_\tJJ\t_\t0\troot\t_\t_\n")
    build("--splits", "dev", "train").ok()
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == [
        "counts.json", "ewt-verbs.dev.conll", "ewt-verbs.train.conll", "ewt.train.conllu",
    ]  # fmt: skip
    trees = read_trees(tmp_path / "out" / "ewt.train.conllu")
    assert [len(tree.words) for tree in trees] == [1, 7, 2, 2]
    assert trees[0].words == ("Fine",) and trees[1].tags[0] == "PRP"


@pytest.mark.parametrize(("kind", "kept"), [("nouns", [6]), ("all", [3, 6])])
def test_nominal_predicates(build, tmp_path, kind, kept):
    """The offer is a noun with its own column."""
    text = build.skeleton.read_text()
    build.skeleton.write_text(
        text.replace("(ARG1* (ARG1*", "(ARG1* (ARG1*)").replace("*) *)\n", "*) (V*)\n")
    )
    done = build("--predicates", kind)
    assert done.returncode == 0 and "is NOT the file" in done.stdout, done.stderr
    first, second = conll.read(tmp_path / "out" / f"ewt-{kind}.dev.conll")
    assert [p.predicate for p in first.propositions] == kept
    noun = first.propositions[-1]
    assert (noun.lemma, noun.spans) == ("offer", (Span("A1", 5, 5), Span("V", 6, 6)))
    assert len(second.propositions) == (kind == "all")
    left_out = only_counts(tmp_path)["left out"]
    assert left_out.get("predicates that are no nouns", 0) == 3 * (kind == "nouns")
    assert left_out.get("auxiliaries", 0) == (kind == "all")


def only_counts(tmp_path):
    return json.loads((tmp_path / "out" / "counts.json").read_text())["dev"]


def test_a_document_without_annotation_is_counted(build, tmp_path):
    with build.listed.open("a") as file:
        file.write("reviews/00/unread.xml\n")
    build().ok()
    counts = only_counts(tmp_path)
    assert (counts["documents"], counts["sentences"]) == (2, 2)
    assert counts["left out"]["documents without annotation"] == 1


def test_another_folder_of_the_genre_and_a_list_without_endings(build, tmp_path):
    moved = build.skeleton.parents[1] / "07" / build.skeleton.name
    moved.parent.mkdir()
    build.skeleton.rename(moved)
    build.listed.write_text("answers/00/x_ans.xml\n")
    build().ok()
    assert only_counts(tmp_path)["predicates"] == 2


@pytest.mark.parametrize(("changed", "kept"), [(2, 2), (3, 1)])
def test_many_other_tags_are_another_sentence(build, tmp_path, changed, kept):
    """Up to max(2, 30 %) of the tags may differ: 2 of the 7 here."""
    text = build.skeleton.read_text()
    for old in (" PRP ", " DT ", " NN ")[:changed]:
        text = text.replace(old, " XX ", 1)
    build.skeleton.write_text(text)
    build().ok()
    counts = only_counts(tmp_path)
    assert counts["sentences"] == kept
    assert counts["left out"].get("sentences with other tags", 0) == 2 - kept


TWO_WORDS = """\
google/ewt/{doc} 0 0 [WORD] PRP (TOP(S(NP*) - - (ARG0*) *
google/ewt/{doc} 0 1 [WORD] VBD (VP* - - * *
google/ewt/{doc} 0 2 [WORD] RB * {first} (V*) (ARGM-ADV*)
google/ewt/{doc} 0 3 [WORD] VB (VP* Pour Pour.02 (C-V*) *
google/ewt/{doc} 0 4 [WORD] RP (PRT*) - - * *
google/ewt/{doc} 0 5 [WORD] DT (NP(NP* - - * *
google/ewt/{doc} 0 6 [WORD] NN *)))) {last} * (V*)
"""


def test_a_predicate_stands_at_the_first_word_of_its_v(build, tmp_path):
    text = TWO_WORDS.format(doc="x", first="- -", last="offer offer.01")
    build.skeleton.write_text(text)
    build().ok()
    (only,) = conll.read(tmp_path / "out" / "ewt-verbs.dev.conll")[0].propositions
    assert (only.predicate, only.lemma) == (2, "pour")
    assert only.spans == (Span("A0", 0, 0), Span("V", 2, 2), Span("C-V", 3, 3))


def test_a_predicate_at_the_place_of_another_is_left_out(build, tmp_path):
    text = TWO_WORDS.format(doc="x", first="pour pour.01", last="- -")
    build.skeleton.write_text(text.replace("* (V*)\n", "* *\n").replace("(ARGM-ADV*)", "(V*)"))
    build().ok()
    counts = only_counts(tmp_path)
    assert counts["predicates"] == 0
    assert counts["left out"]["predicates at the place of another"] == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("* (ARG1* (ARG1", "* (ARG1(ARG2*) (ARG1", "predicates with nested or unbalanced spans"),
        ("*) *)\n", "* *)\n", "predicates with nested or unbalanced spans"),
        ("(ARG1*", "(V*", "predicates without exactly one V"),
        ("(V* *", "(C-V* *", "predicates without exactly one V"),
    ],
)
def test_a_bad_column_is_counted(build, tmp_path, old, new, reason):
    text = build.skeleton.read_text()
    assert old in text
    build.skeleton.write_text(text.replace(old, new, 1))
    build().ok()
    counts = only_counts(tmp_path)
    assert (counts["predicates"], counts["left out"][reason]) == (1, 1)


def test_bad_repositories_are_named(build, tmp_path):
    build.skeleton.write_text(build.skeleton.read_text().replace("* (ARG0*) *", "* (ARG0*)"))
    done = build()
    assert done.returncode == 2 and "x_ans.xml.gold_skel, line 2: 11 columns" in done.stderr
    build.words.unlink()
    done = build()
    assert done.returncode == 2 and "there is no file" in done.stderr
    build.skeleton.unlink()
    done = build()
    assert done.returncode == 2 and "--propbank propbank: there is no .gold_skel" in done.stderr
    assert not (tmp_path / "out").exists()


def test_too_few_columns(build):
    build.skeleton.write_text("answers/00/x_ans.xml 0 0 Tea NN\n")
    done = build()
    expected = "gold_skel, line 1: 5 columns, but a .gold_skel file has 8 or more"
    assert done.returncode == 2 and expected in done.stderr
