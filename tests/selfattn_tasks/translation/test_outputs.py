"""Reading translations in corpus order and scoring them."""

import pytest
import sacrebleu

from selfattn.errors import UserError
from selfattn_tasks.text import read_lines
from selfattn_tasks.translation.outputs import read_hypotheses, read_translations

GENERATED = """S-2\tc\nH-2\t-0.5\t▁drei\nD-2\t-0.5\tdrei Katzen sitzen hier\nP-2\t-0.1 -0.2
S-0\ta\nD-0\t-0.25\tein Hund läuft weit\nD-0\t-0.3\tzweite Wahl
D-1\t-1e-05\t
Generate test with beam=5: done
"""


def write(folder, text):
    path = folder / "out.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_generate_output_comes_in_corpus_order_with_empty_translations(tmp_path):
    path = write(tmp_path, GENERATED)
    expected = ["ein Hund läuft weit", "", "drei Katzen sitzen hier"]
    assert read_translations(path) == expected
    assert read_translations(path, 3) == expected


def test_plain_text_is_taken_as_it_stands(tmp_path):
    assert read_translations(write(tmp_path, "eins\n\ndrei\n")) == ["eins", "", "drei"]


def test_lines_end_where_those_of_a_corpus_do(tmp_path):
    path = tmp_path / "out.txt"
    path.write_bytes("eins\reins\u2028eins\u0085eins\r\nzwei\n".encode())
    lines = ["eins\reins\u2028eins\u0085eins", "zwei"]
    assert read_translations(path, 2) == lines == read_lines(path)
    path.write_bytes(b"D-1\t-1\tzwei\nD-0\t-1\teins\reins\n")
    assert read_translations(path, 2) == ["eins\reins", "zwei"]


@pytest.mark.parametrize(
    ("text", "expected", "message"),
    [
        (GENERATED, 4, "3 translations of 4 sentences, without number 3.* --skip-invalid-size-"),
        (GENERATED.replace("D-1", "X-1"), None, "2 translations of 3 sentences, without number 1"),
        ("D-999999999\t-1\tein\n", None, "1 translations of 1000000000 .* without number 0"),
        (GENERATED + f"D-{'9' * 5000}\t-1\tein\n", 4, "3 translations of 4 sentences"),
        (GENERATED, 2, "3 translations, but the corpus has 2 sentences"),
        ("eins\nzwei\n", 3, "has 2 translations; it must have 3"),
        ("", None, "is empty, but needs at least one line"),
        ("", 1, "is empty, but needs at least one line"),
    ],
)
def test_incomplete_output_is_refused(tmp_path, text, expected, message):
    with pytest.raises(UserError, match=message):
        read_translations(write(tmp_path, text), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eins\n▁zwei\n", "translation 2 contains the subword mark '▁'"),
        ("ei@@ ns\nzwei\n", "the subword mark '@@'; generate with --remove-bpe subword_nmt"),
    ],
)
def test_subword_marks_are_refused_unless_references_have_them(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(UserError, match=message):
        read_hypotheses(path, ["eins", "zwei"], path)
    assert read_hypotheses(path, read_lines(path), path) == read_lines(path)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        read_translations(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UserError, match="cannot be read"):
        read_translations(tmp_path / "loop")
    (tmp_path / "latin").write_bytes("läuft".encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8"):
        read_translations(tmp_path / "latin")


def test_the_script_scores_and_saves(tmp_path, run_cli):
    references = tmp_path / "ref"
    references.write_text("ein Hund läuft weit\nja\nDrei Katzen sitzen hier\n", encoding="utf-8")
    command = ["scripts/score_translation.py", write(tmp_path, GENERATED), "--ref", references]
    done = run_cli([*command, "--lowercase", "--save", tmp_path / "hyp"]).ok()
    assert done.stdout.startswith("BLEU ") and "case:lc" in done.stdout
    hypotheses = (tmp_path / "hyp").read_text(encoding="utf-8").splitlines()
    assert hypotheses[0] == "ein Hund läuft weit"
    done = run_cli([*command, "--metrics", "ter", "bleu", "chrF", "--tokenize", "intl"])
    gold = [references.read_text(encoding="utf-8").splitlines()]
    wanted = (
        ("BLEU", sacrebleu.corpus_bleu(hypotheses, gold, tokenize="intl"), "tok:intl"),
        ("chrF", sacrebleu.corpus_chrf(hypotheses, gold), "nc:6"),
        ("TER", sacrebleu.corpus_ter(hypotheses, gold), "tok:tercom"),
    )
    for line, (name, score, part) in zip(done.stdout.splitlines(), wanted, strict=True):
        assert line.startswith(f"{name} {score.score:.2f}  nrefs:1|case:") and part in line
    references.write_text("nur eine\n", encoding="utf-8")
    done = run_cli(command)
    assert done.returncode == 2
    assert "error: " in done.stderr and "Traceback" not in done.stderr


def test_the_script_refuses_what_belongs_to_other_references(tmp_path, run_cli):
    references = tmp_path / "ref"
    references.write_text("ein Hund läuft weit\nja\nDrei Katzen sitzen hier\n", encoding="utf-8")
    targets = "T-0\tEtwas anderes\nT-1\tganz und gar\nT-2\tDrei Katzen sitzen hier\n"
    output = write(tmp_path, GENERATED + targets)
    done = run_cli(["scripts/score_translation.py", output, "--ref", references])
    assert done.returncode == 2, done.stderr
    assert "was generated for other references: of the 3 that it holds, 1 are those" in done.stderr
    empty = tmp_path / "empty"
    empty.touch()
    done = run_cli(["scripts/score_translation.py", empty, "--ref", empty])
    assert done.returncode == 2 and "is empty" in done.stderr and "BLEU" not in done.stdout


def test_the_script_warns_about_translations_without_blanks(tmp_path, run_cli):
    references = tmp_path / "ref"
    references.write_text("ein Hund\nja\nDrei Katzen sitzen\n", encoding="utf-8")
    output = write(tmp_path, "einHund\nja\nDreiKatzensitzen\n")
    missing = tmp_path / "no" / "hyp"
    command = ["scripts/score_translation.py", output, "--ref", references]
    done = run_cli(command)
    assert done.returncode == 0 and done.stdout.startswith("BLEU ")
    assert "no translation contains a blank, but 2 of 3 references do" in done.stderr
    for name in ("ref", output.name):
        done = run_cli([*command, "--save", tmp_path / name])
        assert done.returncode == 2 and f"{name} is one of the inputs, which" in done.stderr
    done = run_cli([*command, "--save", missing])
    assert done.returncode == 2 and f"--save is {missing}, but there is no folder" in done.stderr
