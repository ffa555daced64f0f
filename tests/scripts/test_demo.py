"""scripts/demo.py from text to the closing screen, on generated text and with a tiny budget."""

import re
import runpy
import signal
import subprocess
import sys
import time

import pytest

from tests.preloaded import basic_environment

for module in ("sentencepiece", "sacrebleu", "matplotlib"):
    pytest.importorskip(module)

pytestmark = [pytest.mark.fairseq, pytest.mark.slow]

TINY = ["--updates", "10", "--width", "16", "--vocab-size", "100", "--held-out", "8"]
# Without a network, pip fails at once.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "http_proxy": "http://127.0.0.1:9",
           "https_proxy": "http://127.0.0.1:9"}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory, sentences):
    folder = tmp_path_factory.mktemp("demo")
    for side, lang in enumerate(("en", "de")):
        (folder / f"my.{lang}").write_text("".join(f"{p[side]}\n" for p in sentences), "utf-8")
    return folder


@pytest.fixture(scope="module")
def demo(run_cli, place):
    def run(*args, pair=True):
        text = ["--pair", "my.en", "my.de"] if pair else []
        return run_cli(["scripts/demo.py", *text, "--dir", "out", *args], cwd=place, **OFFLINE)

    return run


@pytest.fixture(scope="module")
def first(demo):
    return demo(*TINY).ok()


def run_folder(place, run="mtsa-1"):
    (folder,) = place.glob(f"out/my-*/10-updates-16-wide/{run}")
    return folder


def test_the_screen_says_everything(first, place):
    screen = first.stdout[first.stdout.index("───") :]
    assert "transformer_mtsa" in screen
    assert re.search(r"BLEU +\d+\.\d  mtsa-1", screen)
    assert "nrefs:1|case:mixed|eff:no|tok:13a" in screen
    assert screen.count("translation  ") == screen.count("reference  ") == 3
    # No number of the screen comes from somewhere else: sacrebleu's own command agrees.
    folder = run_folder(place)
    reference = folder.parents[1] / "data" / "raw" / "test.de"
    command = [sys.executable, "-m", "sacrebleu", reference, "-i", folder / "test.hyp", "-b", "-w1"]
    bleu = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    assert re.search(rf"BLEU +{bleu}  mtsa-1", screen)
    assert "--attention multihead --pair my.en my.de" in " ".join(screen.split())
    assert f"curves        {(folder / 'curves.png').relative_to(place)}\n" in screen
    for name in ("test.hyp", "checkpoints/checkpoint_best.pt", "train.log", "tensorboard"):
        assert name in screen
        assert (folder / name).exists()
    assert screen.count("\n") <= 30
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert any((folder / "tensorboard").rglob("events.out.tfevents*"))


def test_progress_is_shown_line_by_line(first):
    states = re.findall(r"^mtsa-1 +(\w+)", first.stdout, re.M)
    assert list(dict.fromkeys(states)) == ["training", "testing", "done"]
    assert re.search(r"^mtsa-1 +testing +10/10 +loss \d\.\d\d +best bleu \d", first.stdout, re.M)


def test_the_second_run_repeats_nothing(first, demo, place):
    files = [p for p in place.rglob("*") if p.is_file() and p.name in ("test.hyp", "train.log")]
    before = {path: path.stat().st_mtime_ns for path in files}
    done = demo(*TINY).ok()
    assert done.stdout.count("done before") == 1
    assert "wide: 1 of 1 runs done\n" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in files} == before
    assert done.stdout[done.stdout.index("───") :] == first.stdout[first.stdout.index("───") :]


def test_the_baseline_shares_the_data_and_is_compared(first, demo, place):
    done = demo(*TINY, "--attention", "multihead").ok()
    assert re.search(r"BLEU +\d+\.\d  multihead-1\n +\d+\.\d  mtsa-1", done.stdout)
    log = (run_folder(place, "multihead-1") / "train.log").read_text("utf-8")
    assert "--encoder-attention multihead" in log
    assert "AttentionEncoder" not in log
    assert "AttentionEncoder" in (run_folder(place) / "train.log").read_text("utf-8")


@pytest.mark.parametrize("written", ["--attention mtsa", "--attention=mtsa", "--att mtsa"])
def test_the_command_of_the_baseline_names_it_once(repo_root, monkeypatch, written):
    demo = runpy.run_path(str(repo_root / "scripts" / "demo.py"))
    words = ["--pair", "my text.en", "my.de", *written.split(), "--updates=9"]
    monkeypatch.setattr("sys.argv", ["demo.py", *words])
    said = demo["baseline_command"](demo["parse_args"]())
    rest = "--pair 'my text.en' my.de --updates=9"
    assert said == f"python scripts/demo.py --attention multihead {rest}"


def test_a_killed_demo_goes_on(first, demo, place, repo_root, server):
    """Trained longer than those above, it is a run of its own and not compared with them."""
    size = ["--updates", "60", *TINY[2:], "--dir", "out"]
    command = [server.python, repo_root / "scripts" / "demo.py", "--pair", "my.en", "my.de", *size]
    pattern = "out/my-*/60-updates-*/mtsa-1/train.log"
    process = subprocess.Popen(
        command, cwd=place, env=basic_environment(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    patience = time.monotonic() + 200
    while not any("Saved checkpoint" in p.read_text("utf-8") for p in place.glob(pattern)):
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < patience
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (log,) = place.glob(pattern)
    assert "done training" not in log.read_text("utf-8")
    done = demo(*size).ok()
    assert re.search(r"^mtsa-1 +training +\d+/60", done.stdout, re.M)
    assert "multihead-1" not in done.stdout
    text = log.read_text("utf-8")
    assert text.count("$ ") == 2
    assert "done training" in text
    reached = [int(n) for n in re.findall(r'valid .*"valid_num_updates": "(\d+)"', text)]
    assert reached[-1] == 60
    assert reached == sorted(reached)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--updates", "0"], "--updates is 0"),
        (["--width", "12"], "--width is 12"),
        ([*TINY[:4], "--vocab-size", "9999", "--held-out", "8"], "--vocab-size is 9999"),
        ([*TINY[:6], "--held-out", "500"], "--held-out is 500"),
        (["--pair", "my.en", "missing.de"], "there is no file missing.de"),
    ],
    ids=["updates", "width", "vocabulary", "held-out", "missing"],
)
def test_mistakes_are_one_sentence(first, demo, args, words):
    done = demo(*args)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_network_is_one_sentence(demo, place):
    done = demo("--wheels", "wheels", "--dir", "net", pair=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "check the network" in done.stderr
    assert "net/download.log" in done.stderr


def test_a_crashed_training_is_one_sentence_with_its_log(first, demo, place):
    """numpy, and so fairseq-train, takes no negative seed."""
    done = demo(*TINY, "--seed", "-5")
    assert done.returncode == 2, done.stdout
    assert done.stderr.count("\n") == 1
    assert "mtsa--5 failed, as said above; its logs are in out/my-" in done.stderr
    assert "fairseq-train ended with code 1" in done.stdout
    assert "--seed -5 is not allowed" in done.stdout
