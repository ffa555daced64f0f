"""A grid of translation on one GPU, several runs at a time.

RAW names the folder of the raw text, GRID the grid, RUNS how many share the GPU. The default is the
tuning's of Multi30k: evidence.yaml waits for what that chooses.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from selfattn.errors import UserError
from selfattn_experiments.runs.keys import load

from .results import Results

SHOWN = ("run", "status", "BLEU", "remaining")
_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(results: Results) -> None:
    """Resume the grid and keep the records of the runs that are done."""
    grid = Path(os.environ.get("GRID", _EXAMPLES / "multi30k_en_de/tuning.yaml")).resolve()
    facts = load(grid)
    runs = Path(facts["output"])
    kept = results.folder / f"grid.{runs.name}.tar.gz"
    command = [sys.executable, str(_EXAMPLES.parent / "scripts/run_seeds.py"), str(grid)]
    if not Path(facts["data"]).exists():
        if "RAW" not in os.environ:
            raise UserError(f"there is no folder {facts['data']}: RAW must name the raw text's")
        prepare = [grid.parent / "prepare.sh", os.environ["RAW"], facts["data"], "10000"]
        subprocess.run(prepare, check=True, env={**os.environ, "PYTHON": sys.executable})
    if results.dry:
        done = subprocess.run([*command, "--dry-run"], check=True, capture_output=True, text=True)
        results.add({"status": "dry run", "remaining": done.stdout.count("fairseq_cli.train")})
        return
    if kept.exists():
        _evidence("restore", runs, kept)
    try:
        words = ["--device", "cuda", "--runs-per-gpu", os.environ.get("RUNS", "6")]
        subprocess.run([*command, *words])
    finally:
        if any(runs.glob("*/run.json")):
            _evidence("save", runs, kept)
    subprocess.run([*command, "--summary"])
    if (runs / "summary.json").exists():  # not before the first run is done
        results.rows.clear()
        summary = json.loads((runs / "summary.json").read_text("utf-8"))
        results.add(*({**row.pop("scores"), **row} for row in summary["runs"]))


def _evidence(verb: str, runs: Path, kept: Path) -> None:
    """``evidence.sh`` with one file for all runs: a lent machine gives few files back."""
    with tempfile.TemporaryDirectory() as folder:
        if kept.exists():
            shutil.unpack_archive(kept, folder, filter="data")
        subprocess.run([_EXAMPLES / "evidence.sh", verb, runs, folder], check=True)
        if verb == "save":
            shutil.make_archive(str(kept).removesuffix(".tar.gz"), "gztar", folder)
