"""Runs to compare."""

from pathlib import Path

import pytest

from tests.selfattn_experiments.compare.made_up import LINES, generated, translations


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A good system of plain text and a bad one of fairseq-generate, three seeds each."""
    monkeypatch.chdir(tmp_path)
    Path("one.de").write_text("".join(f"{line}\n" for line in LINES), "utf-8")
    Path("short.de").write_text("".join(f"{line}\n" for line in LINES[:9]), "utf-8")
    for seed in (1, 2, 3):
        for name, wrong in (("base", 0.4), ("good", 0.05)):
            run = Path("runs", f"{name}-{seed}")
            run.mkdir(parents=True)
            out = translations(f"{name}{seed}", wrong)
            text = generated(out, seed) if name == "base" else "".join(f"{s}\n" for s in out)
            (run / "one.out").write_text(text, "utf-8")
    return tmp_path
