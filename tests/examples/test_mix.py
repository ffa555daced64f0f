"""examples/mix_en_de: its data from raw text to the commands of its grid."""

import gzip
import random
import sys

WORDS = "aqua bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike oscar".split()


def test_held_out_pairs_are_halved_and_the_grid_takes_them(tmp_path, run_cli, repo_root):
    draw = random.Random(1)
    raw = tmp_path / "raw"
    raw.mkdir()
    for split, size in (("train", 200), ("valid", 21)):
        pairs = [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(size)]
        (raw / f"{split}.en").write_text("".join(f"{pair}\n" for pair in pairs))
        text = "".join(f"{pair.title()}\n" for pair in pairs)
        (raw / f"{split}.de.gz").write_bytes(gzip.compress(text.encode()))
    (raw / "valid.en.gz").write_bytes(gzip.compress(b"an older copy\n"))  # not taken
    call = ["examples/mix_en_de/prepare.sh", raw, tmp_path / "data-bin/mix", "60"]
    run_cli(call, python="bash", PYTHON=sys.executable).ok()
    held_out = (raw / "valid.en").read_text().splitlines()
    prepared = tmp_path / "data-bin/mix/raw"
    assert (prepared / "valid.en").read_text().splitlines() == held_out[::2]
    assert (prepared / "test.en").read_text().splitlines() == held_out[1::2]
    assert (prepared / "test.de").read_text().splitlines() == [s.title() for s in held_out[1::2]]
    grid = repo_root / "examples/mix_en_de/grid.yaml"
    done = run_cli(["scripts/run_seeds.py", grid, "--dry-run"], cwd=tmp_path)
    assert done.stdout.count("fairseq_cli.train") == 16, done.stderr
