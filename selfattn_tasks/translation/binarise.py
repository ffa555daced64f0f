"""fairseq-preprocess as a subprocess, so that this package never imports fairseq."""

import importlib.util
import os
import subprocess
from pathlib import Path

from selfattn.errors import UserError

from ..cli import fairseq_command, raise_if_disk_full


def preprocess(
    encoded: Path,
    destination: Path,
    languages: tuple[str, str],
    tests: list[str],
    *,
    workers: int = 1,
    dictionary: Path | None = None,
) -> None:
    """Run fairseq-preprocess with one dictionary for both languages.

    Args:
        encoded: holds ``NAME.LANG`` for ``train``, ``valid`` and each of ``tests``.
        destination: the data-bin to make.
        languages: source and target.
        tests: names of the test sets, in order.
        workers: number of processes.
        dictionary: the dictionary. Default: the pieces that occur in ``train``.

    Raises:
        UserError: if fairseq is not installed or its preprocessing fails.
        OSError: if the disk is full.
    """
    if importlib.util.find_spec("fairseq_cli") is None:
        raise UserError("fairseq is not installed: `selfattn info` says what to do about it")
    command = fairseq_command(
        "preprocess",
        "--source-lang", languages[0], "--target-lang", languages[1],
        "--trainpref", str(encoded / "train"), "--validpref", str(encoded / "valid"),
        "--destdir", str(destination), "--joined-dictionary", "--workers", str(workers),
    )  # fmt: skip
    if tests:
        command += ["--testpref", ",".join(str(encoded / name) for name in tests)]
    if dictionary is not None:
        command += ["--srcdict", str(dictionary)]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", env=environment
    )
    if done.returncode != 0:
        raise_if_disk_full(done.stdout, destination)
        last = (done.stdout.strip() or "no output").splitlines()[-1].strip()
        raise UserError(f"fairseq-preprocess ended with code {done.returncode}: {last}")
