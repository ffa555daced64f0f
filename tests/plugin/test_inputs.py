"""Data and sentences that cannot be used: one sentence, exit code not 0."""

import shutil

import pytest
import torch
from fairseq import tasks
from fairseq.sequence_generator import SequenceGenerator

from selfattn.errors import UserError
from tests.plugin.helpers import parsed, sentence
from tests.plugin.test_fairseq_features import build, dictionary

INTERACTIVE = ["--user-dir", "plugin", "--cpu", "--source-lang", "src", "--target-lang", "tgt"]


@pytest.fixture
def interactive(toy_run, toy_data, run_module):
    def translate(text, *args):
        path = ["--path", toy_run / "checkpoint_best.pt"]
        return run_module(
            "fairseq_cli.interactive", [toy_data, *INTERACTIVE, *path, *args], stdin=text
        )

    return translate


def test_interactive_translates(interactive):
    done = interactive("a1 b2 c3\nb1 unheard\n").ok()
    assert [line[:4] for line in done.stdout.splitlines() if line[:2] == "D-"] == ["D-0\t", "D-1\t"]


def hypotheses(output):
    """Numbers and words of the D lines."""
    lines = (line.split("\t") for line in output.splitlines() if line.startswith("D-"))
    return [(number, words) for number, _, words in lines]


def test_interactive_empty_lines_give_empty_translations(interactive):
    text = "a1 b2\n\nb1\n   \nc3\n "  # the last without a newline
    done = interactive(text).ok()
    found = hypotheses(done.stdout)
    assert [number for number, _ in found] == [f"D-{n}" for n in range(6)]
    assert [words for _, words in found][1::2] == ["", "", ""]
    assert {"S-1\t", "H-1\t0.0\t", "P-1\t0.0000"} <= set(done.stdout.splitlines())
    many = ("--buffer-size", "4", "--batch-size", "3", "--nbest", "2", "--print-alignment")
    done = interactive(text, *many).ok()
    numbers = [number for number, _ in hypotheses(done.stdout)]
    assert numbers == ["D-0", "D-0", "D-1", "D-2", "D-2", "D-3", "D-4", "D-4", "D-5"]


def test_an_empty_source_beside_others():
    """In every command that translates: generation, validation with BLEU, from_pretrained."""
    torch.manual_seed(5)
    model = build().eval()
    words = dictionary(20)
    generator = SequenceGenerator([model], words, beam_size=2, max_len_b=8)
    tokens, lengths = torch.randint(4, 20, (3, 7)), torch.tensor([7, 7, 7])
    alone = {"src_tokens": tokens, "src_lengths": lengths}
    before = generator.generate([model], {"net_input": alone})
    empty = torch.full_like(tokens[:1], words.pad())
    empty[0, -1] = words.eos()
    inputs = {
        "src_tokens": torch.cat([tokens[:1], empty, tokens[1:]]),
        "src_lengths": torch.cat([lengths[:1], torch.ones(1, dtype=torch.long), lengths[1:]]),
    }
    after = generator.generate([model], {"net_input": inputs})
    assert [h["tokens"].tolist() for h in after.pop(1)] == [[words.eos()]]
    empty[0, -2] = words.bos()  # as translation_lev writes it
    only = {"src_tokens": empty, "src_lengths": torch.tensor([2])}
    (found,) = generator.generate([model], {"net_input": only})
    assert [h["tokens"].tolist() for h in found] == [[words.eos()]]
    for one, other in zip(before, after, strict=True):
        assert [h["tokens"].tolist() for h in one] == [h["tokens"].tolist() for h in other]


def test_interactive_long_line(interactive):
    done = interactive("a1 b2\n" + "a1 " * 30 + "\n", "--max-source-positions", "20")
    line = sentence(done, "fairseq-interactive")
    assert "line 2 of the input is too long: it has (31, 0) tokens" in line and "20" in line
    assert "H-0" in done.stdout


def test_interactive_leaves_a_long_line_out(interactive):
    flags = ("--max-source-positions", "20", "--skip-invalid-size-inputs-valid-test")
    done = interactive("a1 b2\n" + "a1 " * 30 + "\nb2\n", *flags).ok()
    assert "H-0" in done.stdout and "H-1" not in done.stdout and "H-2" in done.stdout


def test_generate_long_sentence(toy_run, toy_generate):
    done = toy_generate(toy_run / "checkpoint_best.pt", ["--max-source-positions", "4"])
    line = sentence(done, "fairseq-generate")
    assert "of the data is too long" in line and "--skip-invalid-size-inputs-valid-test" in line


def test_sentence_beyond_max_tokens(toy_run, toy_generate):
    done = toy_generate(toy_run / "checkpoint_best.pt", ["--max-tokens", "3"])
    line = sentence(done, "fairseq-generate")
    assert "--max-tokens (in validation --max-tokens-valid) is 3, but the longest" in line


@pytest.mark.parametrize("missing", ["folder", "dictionary", "split", "all"])
def test_missing_data(missing, toy_data, toy_train, tmp_path):
    data = tmp_path / "data-bin"
    if missing == "all":
        data.mkdir()
        expected = "holds no binarised text"
    elif missing == "folder":
        expected = f"the data folder {data} does not exist"
    else:
        shutil.copytree(toy_data, data)
        pattern = {"dictionary": "dict.tgt.txt", "split": "valid.*"}[missing]
        for path in data.glob(pattern):
            path.unlink()
        expected = {"dictionary": "dict.tgt.txt does not exist", "split": "has no valid set"}[
            missing
        ]
    line = sentence(toy_train(["--save-dir", tmp_path / "run"], data=data), "fairseq-train")
    assert expected in line and str(data) in line


@pytest.mark.parametrize("flag", ["--remove-bpe", "--post-process"])
@pytest.mark.parametrize("command", ["generation", "interactive_generation"])
@pytest.mark.parametrize("bpe", ["characters", "subword_nmt"])
def test_text_is_not_joined_in_two_ways(flag, command, bpe):
    def flags(scheme):
        return parsed("data", "--path", "x.pt", "--bpe", bpe, flag, scheme, command=command)

    with pytest.raises(UserError) as raised:
        flags("sentencepiece")
    assert f"--remove-bpe sentencepiece and --bpe {bpe} would both join" in str(raised.value)
    assert flags("subword_nmt").bpe == bpe  # leaves text without its marks as it is


def test_an_unknown_scheme_is_refused_before_anything_is_translated():
    with pytest.raises(UserError, match="--remove-bpe is 'spm', but must be one of sentencepiece"):
        parsed("data", "--path", "x.pt", "--remove-bpe", "spm", command="generation")


def test_a_file_for_the_folder_of_results_is_refused_before_anything_is_translated():
    with pytest.raises(UserError, match="--results-path is /dev/null, but /dev/null is not a fo"):
        parsed("data", "--path", "x.pt", "--results-path", "/dev/null", command="generation")


@pytest.mark.parametrize(
    ("words", "flags", "warned"),
    [
        (["\u2581ein"], "--eval-bleu-remove-bpe sentencepiece", None),
        (["\u2581ein"], "--eval-bleu-remove-bpe", "scores SentencePiece pieces"),
        (["\u2581ein"], "", "scores SentencePiece pieces"),
        (["ein"], "--eval-bleu-remove-bpe sentencepiece", "removes every blank"),
        (["ein"], "--eval-bleu-remove-bpe", None),
        (["ein"], "", None),
    ],
)
def test_bleu_of_pieces_or_without_blanks(words, flags, warned, tmp_path, caplog):
    for language in ("src", "tgt"):
        (tmp_path / f"dict.{language}.txt").write_text("".join(f"{word} 1\n" for word in words))
    languages = ("--source-lang", "src", "--target-lang", "tgt")
    arch = ("--arch", "transformer_tiny", "--eval-bleu", *flags.split())
    tasks.setup_task(parsed(tmp_path, *languages, *arch))
    assert ("WRONG BLEU AHEAD" in caplog.text) is (warned is not None)
    assert warned is None or warned in caplog.text


def test_an_unknown_scheme_is_refused_before_the_training(tmp_path):
    for language in ("src", "tgt"):
        (tmp_path / f"dict.{language}.txt").write_text("ein 1\n")
    flags = ("--source-lang", "src", "--target-lang", "tgt", "--arch", "transformer_tiny")
    bleu = ("--eval-bleu", "--eval-bleu-remove-bpe", "spm")
    args = parsed(tmp_path, *flags, *bleu)
    with pytest.raises(UserError, match="--eval-bleu-remove-bpe is 'spm', but must be one of"):
        tasks.setup_task(args)
