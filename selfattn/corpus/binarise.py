"""fairseq's own preprocessing, as a subprocess, so that this package never imports fairseq."""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError

if TYPE_CHECKING:
    from .prepare import Options

logger = logging.getLogger(__name__)


def binarise(folder: Path, tests: list[str], options: Options) -> None:
    """Turn ``FOLDER/encoded/*`` into ``FOLDER/data-bin`` with one dictionary for both languages.

    The encoded text is removed afterwards: SentencePiece gives it back from the raw text.

    Args:
        folder (Path): holds ``encoded/NAME.LANG`` for ``train``, ``valid`` and each of ``tests``.
        tests (list[str]): names of the test sets, in order.
        options (Options): languages and number of processes.

    Raises:
        UserError: if fairseq is not installed or its preprocessing fails.
        OSError: if the disk is full.
    """
    if importlib.util.find_spec("fairseq_cli") is None:
        raise UserError(
            "fairseq is not installed: `python -m selfattn.info` says what to do about it"
        )
    encoded = folder / "encoded"
    command = [
        sys.executable, "-m", "fairseq_cli.preprocess",
        "--source-lang", options.source_lang, "--target-lang", options.target_lang,
        "--trainpref", str(encoded / "train"), "--validpref", str(encoded / "valid"),
        "--destdir", str(folder / "data-bin"), "--joined-dictionary",
        "--workers", str(options.workers),
    ]  # fmt: skip
    if tests:
        command += ["--testpref", ",".join(str(encoded / name) for name in tests)]
    logger.info("binarising with fairseq-preprocess")
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    output = done.stdout + done.stderr
    if done.returncode != 0:
        for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            if os.strerror(code) in output:
                raise OSError(code, os.strerror(code), str(folder))
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "no output")
        raise UserError(f"fairseq-preprocess ended with code {done.returncode}: {last.strip()}")
    shutil.rmtree(encoded)
