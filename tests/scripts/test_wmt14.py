"""examples/wmt14_en_de from archives of the real layout to the table, without a network."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import pack
from tests.scripts.conftest import refused

pytest.importorskip("sentencepiece")
pytest.importorskip("sacremoses")
pytestmark = pytest.mark.fairseq

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "wmt14_en_de"
VOCABULARY = ["--vocab-size", "90", "--coverage", "1", "--max-length", "60"]

# Where the published archives hold their files.
FOLDERS = {
    "news-commentary-v13": "training-parallel-nc-v13/",
    "commoncrawl": "./",
    "europarl-v7": "training/",
    "newstest2013": "dev/",
    "newstest2014": "dev/",
}
# Pairs that must go, or come out clean, as lines of bytes.
BAD = {
    "empty": (b"  ", b"Ein Satz."),
    "too long": (b"a " * 61, b"Ein Wort."),
    "not UTF-8": (b"A fish.", "Fische schwimmen \u00fcberall.".encode("latin-1")),
    "too many pieces": (b"xyz" * 40, b"Ein Fisch."),
}
ODD = (b"a\rdog  sees\xc2\xad the moon today.", b"heute sieht ein Hund den Mond.\t")


def sgm(pairs, side, kind):
    segments = "".join(f'<seg id="{i}">{p[side]}</seg>\n' for i, p in enumerate(pairs, 1))
    segments = segments.replace("dog", "dog &amp; dog").replace("Hund", "Hund &amp; Hund")
    return f'<{kind} setid="x">\n<doc docid="d">\n{segments}</doc>\n</{kind}>\n'.encode()


def joined(pairs, side):
    lines = [p[side] if isinstance(p[side], bytes) else p[side].encode() for p in pairs]
    return b"".join(line + b"\n" for line in lines)


@pytest.fixture(scope="module")
def layout(sentences):
    """Pairs by corpus; bad ones are among those of commoncrawl."""
    crawled = [*sentences[50:100], *BAD.values(), ODD, *sentences[100:150]]
    return {
        "news-commentary-v13": sentences[:50],
        "commoncrawl": crawled,
        "europarl-v7": sentences[150:300],
        "newstest2013": sentences[300:310],
        "newstest2014": sentences[310:318],
    }


@pytest.fixture(scope="module")
def archives(layout, tmp_path_factory):
    """A folder with the archives, and the real sources.json but for sizes and checksums."""
    folder = tmp_path_factory.mktemp("archives")
    sources = json.loads((EXAMPLE / "sources.json").read_text())
    contents = {name: {"README": b"not read"} for name in sources["archives"]}
    for corpus in sources["corpora"]:
        pairs = layout[corpus["name"]]
        corpus["pairs"] = len(pairs)
        for side, name in enumerate((corpus["source"], corpus["target"])):
            kind = ("srcset", "refset")[side]
            data = sgm(pairs, side, kind) if name.endswith(".sgm") else joined(pairs, side)
            # The target first, as in the real archives.
            place = FOLDERS[corpus["name"]] + name
            contents[corpus["archive"]] = {place: data, **contents[corpus["archive"]]}
    for archive, files in contents.items():
        path = pack(folder / archive, files)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        sources["archives"][archive] |= {
            "bytes": path.stat().st_size,
            "digest": f"sha256:{digest}",
        }
    (folder / "sources.json").write_text(json.dumps(sources))
    return folder


def command(archives, dest, *args):
    sources = ["--sources", archives / "sources.json"]
    return [EXAMPLE / "prepare.py", "--dest", dest, *sources, *VOCABULARY, *args]


@pytest.fixture(scope="module")
def data(archives, run_cli, tmp_path_factory):
    """What prepare.py made, with its output; the archives came from a file:// mirror."""
    dest = tmp_path_factory.mktemp("data") / "wmt14"
    done = run_cli(command(archives, dest, "--mirror", archives.as_uri())).ok()
    return dest, done.stdout


def text(path):
    return path.read_text("utf-8").splitlines()


def test_counts_and_alignment(data, layout, sentences):
    dest, output = data
    counts = json.loads((dest / "prepared.json").read_text())
    assert counts["text"]["train"]["commoncrawl"] == {
        "read": 105, "kept": 102, "empty": 1, "too long": 1, "not UTF-8": 1,
    }  # fmt: skip
    assert counts["text"]["train"]["read"] == 305
    assert counts["encoded"]["train"]["kept"] == 301
    assert counts["encoded"]["train"]["too many pieces"] == 1
    assert "commoncrawl: 105 read, 102 kept, 1 empty" in output
    assert "train        301 pairs, 1 too long" in output
    # Every line still stands beside its translation, in the order of the archives.
    sides = [text(dest / "text" / f"train.{lang}") for lang in ("en", "de")]
    pairs = list(zip(*sides, strict=True))
    clean = [("a dog sees the moon today.", "heute sieht ein Hund den Mond.")]
    long = [tuple(side.decode() for side in BAD["too many pieces"])]
    assert pairs == [*sentences[:100], *long, *clean, *sentences[100:300]]
    pieces = [text(dest / "encoded" / f"train.{lang}") for lang in ("en", "de")]
    decoded = [
        tuple(line.replace(" ", "").replace("\u2581", " ").strip() for line in pair)
        for pair in zip(*pieces, strict=True)
    ]
    assert decoded == [*sentences[:100], *clean, *sentences[100:300]]
    # The test set is as published, with its entities resolved.
    references = [p[1].replace("Hund", "Hund & Hund") for p in layout["newstest2014"]]
    assert text(dest / "text" / "reference.de") == references
    assert len(text(dest / "text" / "valid.en")) == 10


def test_the_dictionary_has_all_pieces(data):
    dest, _ = data
    dictionary = text(dest / "data-bin" / "dict.en.txt")
    assert dictionary == text(dest / "data-bin" / "dict.de.txt")
    # 90 of SentencePiece without its three special ones; fairseq adds four of its own.
    assert len(dictionary) == 87
    assert json.loads((dest / "prepared.json").read_text())["data-bin"]["symbols"] == 91


def contents(dest):
    """Bytes of all files but the downloads."""
    return {
        path.relative_to(dest).as_posix(): path.read_bytes()
        for path in sorted(dest.rglob("*"))
        if path.is_file() and "downloads" not in path.parts
    }


@pytest.mark.slow
def test_a_killed_command_goes_on_and_ends_the_same(data, archives, run_cli, tmp_path):
    dest = tmp_path / "wmt14"
    words = [*map(str, command(archives, dest, "--archives", archives))]
    fresh = [sys.executable, *words]
    with subprocess.Popen(fresh, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        for line in process.stdout:
            if line.startswith("vocabulary: learning"):
                process.send_signal(signal.SIGKILL)
    assert (dest / "text" / "step.json").is_file()
    assert not (dest / "data-bin").exists()
    # A disk that is full while fairseq writes.
    limited = f"ulimit -f 12; trap '' XFSZ; exec $PYTHON {' '.join(words)}"
    done = run_cli(["-c", limited], python="bash", PYTHON=sys.executable)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no space left" in done.stderr and "Traceback" not in done.stderr
    done = run_cli(words).ok()
    assert "text: done before" in done.stdout
    assert contents(dest) == contents(data[0])
    assert not list(dest.glob(".*"))


@pytest.fixture
def spoiled(archives, tmp_path):
    """A copy of the archives' folder and its sources, to be changed."""
    folder = tmp_path / "spoiled"
    folder.mkdir()
    for path in archives.iterdir():
        os.link(path, folder / path.name)
    sources = json.loads((folder / "sources.json").read_text())
    (folder / "sources.json").unlink()

    def write():
        (folder / "sources.json").write_text(json.dumps(sources))
        return folder

    write.sources, write.folder = sources, folder
    return write


def test_archives_that_are_wrong_or_missing(spoiled, run_cli, tmp_path):
    (spoiled.folder / "dev.tgz").unlink()
    folder = spoiled()
    dest = tmp_path / "data"
    refused(run_cli(command(folder, dest, "--archives", folder)), "lacks dev.tgz")
    refused(
        run_cli(command(folder, dest, "--mirror", folder.as_uri())),
        "cannot download file://", "dev.tgz", "No such file",
    )  # fmt: skip
    (folder / "dev.tgz").write_bytes((folder / "training-parallel-nc-v13.tgz").read_bytes())
    wrong = run_cli(command(folder, dest, "--archives", folder))
    refused(wrong, "dev.tgz has the sha256", "damaged or another version")
    accepted = run_cli(command(folder, dest, "--archives", folder, "--any-data"))
    refused(accepted, "dev.tgz holds no file newstest2013.en")
    assert not (dest / "text").exists()


def test_no_pair_short_enough(data, archives, run_cli, tmp_path):
    dest = tmp_path / "wmt14"
    few = ["--vocab-size", "50", "--max-length", "10"]
    done = run_cli(command(archives, dest, "--archives", archives, *few))
    refused(done, "--max-length 10 leaves no pair for train, but one or more are needed")


def test_another_number_of_pairs(spoiled, run_cli, tmp_path):
    spoiled.sources["corpora"][2]["pairs"] = 1_920_209
    folder = spoiled()
    done = run_cli(command(folder, tmp_path / "data", "--archives", folder))
    refused(
        done, "europarl-v7 has 150 pairs, but 1,920,209 are known", "--any-data with --archives"
    )
    done = run_cli(command(folder, tmp_path / "data", "--any-data"))
    refused(done, "--any-data is for --archives")


def test_the_flags_are_the_published_ones(run_cli, tmp_path):
    """train.sh, the table's idea of the settings and the model's size belong together."""
    (tmp_path / "dict.en.txt").write_text("".join(f"p{i} 1\n" for i in range(33_704)))
    (tmp_path / "dict.de.txt").write_text((tmp_path / "dict.en.txt").read_text())
    code = """
import json, shlex, subprocess, sys
from pathlib import Path
import torch, yaml
from fairseq import options, tasks
import plugin
example, data = Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, sys.argv[1])
from wmt14.runs import batch_tokens, departures

def parse(words):
    words = [data, "-s", "en", "-t", "de", "--cpu", *words]
    return options.parse_args_and_arch(options.get_training_parser(), words)

def build(args):
    with torch.device("meta"):  # shapes without memory
        return tasks.setup_task(args).build_model(args)

def check(args, setup, processes):
    args.distributed_world_size = processes
    flags = dict(vars(args), batch=batch_tokens(vars(args)))
    return departures(flags, setup, args.max_update)

found, sizes, other = [], {}, {}
for attention in ("multihead", "mtsa"):
    for setup, processes in ((1, 1), (2, 1), (2, 4)):
        done = subprocess.run(
            [example / "train.sh", "--flags", f"setup{setup}", attention, "1"],
            capture_output=True, text=True, check=True,
            env={"PROCESSES": str(processes), "PATH": "/usr/bin:/bin"},
        )
        args = parse(["--arch", "transformer_mtsa_wmt_en_de", *done.stdout.split()])
        model = build(args)
        found += check(args, setup, processes)
    sizes[attention] = sum(weight.numel() for weight in model.parameters())
    for setup in (1, 2):
        grid = yaml.safe_load((example / f"grid_setup{setup}.yaml").read_text())
        words = shlex.split(f"{grid['common']} {grid['systems'][attention]} --seed 1")
        args = parse(words)
        build(args)
        found += check(args, setup, grid["gpus_per_run"])
    masked = parse([*words, f"--{attention}-masks", "forward_backward"])
    build(masked)  # which writes the switches into the flags
    other[attention] = [text for text in check(masked, 2, grid["gpus_per_run"]) if "masks" in text]
args = parse(["--arch", "transformer_mtsa_wmt_en_de", "--warmup-updates", "16000",
              "--lr-scheduler", "inverse_sqrt", "--max-tokens", "2048", "--max-update", "9"])
print(json.dumps([found, sizes, other, check(args, 1, 1)]))
"""
    done = run_cli(["-c", code, EXAMPLE, tmp_path], fresh=False, PYTHONPATH=str(EXAMPLE)).ok()
    found, sizes, masked, others = json.loads(done.stdout.splitlines()[-1])
    assert found == []
    for attention in ("multihead", "mtsa"):
        assert masked[attention] == [f"{attention}_masks is forward_backward, published none"]
    # 61.38M and 61.58M published; fairseq's biases and no target-space embedding: + 20,480.
    assert sizes == {"multihead": 61_399_040, "mtsa": 61_598_720}
    assert "max_update is 9, published 250000" in others
    assert "share_all_embeddings is False, published True" in others


@pytest.mark.slow
def test_train_evaluate_table(data, run_cli, tmp_path):
    dest, _ = data
    run = tmp_path / "setup1-mtsa-1"
    settings = {"PYTHON": sys.executable, "DEVICE_FLAGS": "--cpu", "timeout": 900}
    tiny = ["--arch", "transformer_mtsa_tiny", "--max-update", "2", "--num-workers", "0"]
    refused(
        run_cli([EXAMPLE / "train.sh", "setup2", "mtsa", "1"], python="bash", PROCESSES="3"),
        "PROCESSES is 3, but must divide the 4 of setup2",
    )
    run_cli([EXAMPLE / "train.sh", "setup1", "mtsa", "1", dest, run, *tiny],
            python="bash", **settings).ok()  # fmt: skip
    done = run_cli([EXAMPLE / "evaluate.sh", run, dest], python="bash", **settings).ok()
    assert len(text(run / "last.de")) == 8
    found = json.loads((run / "scores.json").read_text())["last"]
    known = [found[name] for name in ("setup", "attention", "seed", "updates")]
    assert known == [1, "mtsa", 1, 2]
    assert "max_update is 2, published 250000" in found["departures"]
    for flavour, score in found["scores"].items():
        assert f"BLEU {score['bleu']:5.2f}  {flavour}" in done.stdout
    other = tmp_path / "other.out"
    lines = (run / "last.out").read_text("utf-8").splitlines()
    other.write_text("".join(re.sub(r"^(T-\d+\t).*", r"\1xyz", line) + "\n" for line in lines))
    command = [EXAMPLE / "score.py", "--run", run, "--name", "x", "--data", dest]
    command += ["--checkpoint", run / "checkpoint_last.pt", "--output", other]
    refused(run_cli(command), "other.out was generated for other references")
    done = run_cli([EXAMPLE / "table.py", run]).ok()
    assert "| `mtsa`, *published* | ? | ? | 61.58M | 24.09 | 27.21 |" in done.stdout
    assert "| `mtsa`, ours | last | sacrebleu | not run | not run | not run |" in done.stdout
    assert f"left out: {run} (last): encoder_layers is 2, published 6" in done.stdout
    done = run_cli([EXAMPLE / "table.py", "--any-settings", run])
    bleu = found["scores"]["sacrebleu"]["bleu"]
    row = f"{found['parameters']:,} | {bleu:.2f} (1 run) | not run |"
    assert f"| `mtsa`, ours | last | sacrebleu | {row}" in done.stdout
    refused(run_cli([EXAMPLE / "table.py", tmp_path]), "holds no scores.json: run evaluate.sh")
