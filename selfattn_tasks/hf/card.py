"""The model card of an exported model, written from the run's record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfattn.errors import UserError

from ..files import write_text

RECORD = "run.json"

_USE = """```python
import selfattn.hf
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
batch = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```"""


def find_record(checkpoint: Path) -> Path | None:
    """The ``run.json`` of `selfattn runs` beside a checkpoint, or above its folder."""
    for folder in (checkpoint.parent, checkpoint.parent.parent):
        if (folder / RECORD).is_file():
            return folder / RECORD
    return None


def write_card(
    folder: Path, model: Any, record: Path | None, license: str | None, data: str | None
) -> None:
    """Write ``README.md``: what the model is, how it was trained, what it scores.

    What nobody said or measured is named as missing.

    Args:
        folder: of the model.
        model: as it was written.
        record: ``run.json`` of its run, if there is one.
        license: name of the licence, such as ``cc-by-sa-4.0``.
        data: what the model was trained on, in words.

    Raises:
        UserError: if the record cannot be read.
    """
    config = model.config
    source, target = config.source_lang, config.target_lang
    head = ["library_name: transformers", "tags: [selfattn, translation]"]
    head += [f"language: [{source}, {target}]"] + ([f"license: {license}"] if license else [])
    facts = {
        "attention of the encoder": config.attention,
        "layers": f"{config.num_hidden_layers} and {config.decoder_layers}",
        "width": config.hidden_size,
        "parameters": f"{model.num_parameters():,}",
        "data": data or "not stated",
        "licence": license or "not stated",
    }
    scores = ["No scores are recorded."]
    if record is not None:
        facts |= _training(_read(record))
        scores = _scores(_read(record)) or scores
    lines = [
        "---", *head, "---", "", f"# Translation, {source} to {target}, {config.attention}", "",
        "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items()), "",
        "## Scores", "", *scores, "", "## Use", "", "`pip install selfattn[hf]`", "",
        _USE.format(folder=folder.name), "",
    ]  # fmt: skip
    write_text(folder / "README.md", "\n".join(lines))


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the record {path}: {error}") from None
    return found


def _training(record: Mapping[str, Any]) -> dict[str, Any]:
    last = (record.get("attempts") or [{}])[-1]
    found = {
        "run": record.get("run"),
        "seed": record.get("seed"),
        "updates": record.get("updates"),
        "commit": ", ".join(record.get("commits") or ()),
        "hardware": record.get("gpu") or last.get("cpu"),
        "scores are those of the checkpoint": (record.get("test") or {}).get("checkpoint"),
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _scores(record: Mapping[str, Any]) -> list[str]:
    signatures = record.get("signatures") or {}
    rows = [
        f"| {test} | {metric} | {value} | {signatures.get(metric, '')} |"
        for test, scores in (record.get("scores") or {}).items()
        for metric, value in scores.items()
    ]
    return ["| text | metric | score | signature |", "|---|---|---|---|", *rows] if rows else []
