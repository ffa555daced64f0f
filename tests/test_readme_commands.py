"""Each command of README and of docs/, word for word and in their order, on small files."""

import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin import sentence_corpus
from tests.test_readme import blocks

pytestmark = pytest.mark.fairseq

# Added to a command that begins so. The architecture stays the page's, but a checkpoint of its full
# size has 0.6 GB. Five epochs of one update make the five checkpoints that are averaged.
NARROW = (
    "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16 "
    "--encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32 --encoder-attention-heads 2 "
    "--decoder-attention-heads 2"
)
ADDED = {
    "fairseq-train data-bin/my/data-bin --user-dir plugin --arch transformer_mtsa":
        f"--max-update 5 {NARROW}",
    "fairseq-train data-bin/my/data-bin --user-dir plugin --arch transformer_resa":
        f"--max-update 1 {NARROW}",
    "fairseq-train data-bin/srl": "--max-update 1 --encoder-layers 2",
    "fairseq-train data-bin/sick": "--max-update 1 --hidden-size 8",
    "fairseq-train data-bin/lm": "--max-update 1 --hidden-size 8",
    "python scripts/run_seeds.py grid.yaml ": "--dry-run",
}  # fmt: skip
TYPED = {"fairseq-interactive": "A dog runs.\n"}
# What tests/test_make.py and the environment that these tests run in stand for.
LEFT_OUT = ("make ", "pip ", ". ")


def commands():
    """All commands: the blocks without a language."""
    text = "".join(blocks()).replace("\\\n", " ")
    lines = [re.sub(r"\s+# .*", " ", line) for line in text.splitlines()]
    return [line for line in lines if line.strip() and not line.startswith(("#", *LEFT_OUT))]


def words_of(count, generator):
    return " ".join("".join(generator.choices("abcdefghijklmnop", k=30)) for _ in range(count))


def write_text(folder):
    """Few sentences, of words so long that they yield 8,000 pieces."""
    generator = random.Random(1)
    folder.mkdir()
    for name, count in (("train", 16), ("valid", 2), ("test", 4)):
        for language in ("en", "de"):
            lines = [words_of(11, generator) for _ in range(count)]
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n")


def write_roles(folder):
    """The page's own example as training and development data, and vectors of its words."""
    example = blocks("text", ["docs/srl.md"])[0]
    content = example + "\n"
    for name in ("train", "dev"):
        (folder / f"{name}.conll").write_text(content * 2)
    for name in ("book.txt", "texts.txt"):
        (folder / name).write_text("We poured tea to drink.\n")
    vector = " 0.1" * 100
    (folder / "glove.6B.100d.txt").write_text(f"we{vector}\ntea{vector}\ncat{vector}\n")


def write_sentences(folder):
    """Pairs with scores, of words that the vectors know, too; a digit and a text a line."""
    for seed, part in enumerate(("train", "dev", "test")):
        text = sentence_corpus.related(30, seed)
        (folder / f"sick.{part}.tsv").write_text(text)
    (folder / "custrev.all").write_text("".join(f"{n % 2} tea {n}\n" for n in range(20)))
    with (folder / "glove.6B.100d.txt").open("a") as file:
        file.write(f"goat{' 0.1' * 100}\n")


def write_hypotheses(folder):
    """Translations of ten runs, as run_seeds.py would leave them."""
    lines = (folder / "data-bin/my/raw/test.de").read_text().splitlines()
    for system in ("multihead", "mtsa"):
        for seed in range(1, 6):
            kept = [line.split()[: 5 + (seed + i) % 5] for i, line in enumerate(lines)]
            if system == "multihead":
                kept = [["x", *words[1:]] for words in kept]
            run = folder / f"runs/grid/{system}-{seed}"
            run.mkdir(parents=True)
            (run / "test.hyp").write_text("".join(" ".join(words) + "\n" for words in kept))


@pytest.fixture
def place(tmp_path, repo_root):
    """A folder that looks like a clone to these commands, with the files that they name."""
    for name in ("scripts", "plugin", "selfattn"):
        (tmp_path / name).symlink_to(repo_root / name)
    write_text(tmp_path / "corpus")
    write_roles(tmp_path)
    write_sentences(tmp_path)
    (tmp_path / "grid.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sbatch").write_text("#!/bin/sh\necho 1\n")
    (tmp_path / "bin" / "sbatch").chmod(0o755)
    return tmp_path


def run(command, place, run_cli):
    """Run a line of a page: by the fixture where it is one program, else by a shell."""
    if "&&" in command or command.startswith("mkdir"):
        path = f"{place / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin"
        return subprocess.run(
            ["bash", "-c", command], cwd=place, env={"PATH": path}, capture_output=True, text=True
        )
    command, _, source = command.partition(" < ")
    command, _, target = command.partition(" > ")
    program, *words = shlex.split(command)
    if program.startswith("fairseq-"):
        words = ["-m", f"fairseq_cli.{program.removeprefix('fairseq-')}", *words]
    if program == "selfattn":
        words = ["-m", "selfattn_experiments", *words]
    typed = (place / source.strip()).read_text() if source else TYPED.get(program, "")
    done = run_cli(words, cwd=place, stdin=typed, CUDA_VISIBLE_DEVICES="")
    if target:
        (place / target.strip()).write_text(done.stdout)
    return done


def test_every_command_in_its_order(place, run_cli):
    found = commands()
    assert len(found) >= 20
    used = set()
    for command in found:
        if command.startswith("python scripts/compare_bleu.py"):
            write_hypotheses(place)
        more = [start for start in ADDED if command.startswith(start) and "&&" not in command]
        used.update(more)
        done = run(" ".join([command, *(ADDED[start] for start in more)]), place, run_cli)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    assert used == set(ADDED)
    code, without = blocks("python", ["docs/translation.md"])
    code += 'print(type(model.translate("A dog runs.")))\n'
    python = run_cli(["-c", code], cwd=place, fresh=False).ok()
    assert re.fullmatch(r"\[(['\"]).*\1\]\n<class 'str'>\n", python.stdout), python.stdout
    said, python = python.stdout.splitlines()[0], run_cli(["-c", without], cwd=place, fresh=False)
    assert python.returncode == 0, python.stderr
    first, *lines = python.stdout.splitlines()
    assert (first, len(lines), lines[1]) == (said, 3, ""), python.stdout
    python = run_cli(
        ["-c", "\n".join(blocks("python", ["docs/huggingface.md"]))], cwd=place, fresh=False
    ).ok()
    labels, scores, classes = (
        "'(O|[BI]-[^']+)'",
        r"\{'label': '[1-5]', 'score': 0\.\d+\}",
        r"torch.Size\(\[2, 3\]\)",
    )
    pattern = rf"\[(['\"]).*\1\]\n\[({labels}(, )?){{6}}\]\n{scores}\n{classes}\n"
    assert re.match(pattern, python.stdout), python.stdout
    python = run_cli(["-c", *blocks("python", ["docs/srl.md"])], cwd=place, fresh=False)
    assert "\nchased [('A0', 'The cat', 0, 7), " in python.stdout, python.stderr
    assert python.stdout.startswith("The  cat  chased  a  mouse  .\n[A0----]"), python.stdout
    python = run_cli(["-c", *blocks("python", ["docs/export.md"])], cwd=place, fresh=False)
    assert re.fullmatch(r"relatedness [1-5]\.\d+\n", python.stdout), python.stderr
    pictures = ("curves.png", "attention.svg", "pictures/runs.png", "cat-layer1.png",
                "goat-sentence2-layer1.svg", "sick.npy", "book.html")  # fmt: skip
    for name in (*pictures, "runs/my/average.pt", "dev.props", "report.md", "jobs/array.sbatch"):
        assert (place / name).stat().st_size > 0, name


def test_every_training_ends_by_itself():
    for command in commands():
        assert "fairseq-train" not in command or re.search(r"--max-(update|epoch) \d", command)
