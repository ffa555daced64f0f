"""The model card of an exported model, written from the run's record."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfattn.errors import UserError

from ..files import read_object, write_text
from ..metric import short
from ..model_folder import task_of
from ..saved import RECORD, tested
from ..sentences.record import Kind

# These packages are on no package index yet, where others could take their names.
_TRANSLATION = """With `selfattn[hf]`, installed from a clone of the project:

```python
import selfattn.hf
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
batch = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```"""
_WORDS = """With `selfattn-fairseq[text]`, installed from a clone of the project:

```
selfattn predict --model {{folder}} {given}
```

In Python, with `selfattn-fairseq[text,hf]`:

```python
import selfattn_tasks.hf
from transformers import {auto}

model = {auto}.from_pretrained("{{folder}}")
```"""

# What `selfattn predict` needs beside the model: by ``Kind.shape``, or a tagger's target.
_GIVEN = {
    "single": '"..."',
    "pair": '"..." "..."',
    "candidates": '"QUESTION" "CANDIDATE" "CANDIDATE"',
    "arguments": '"..." --predicates WORD',
    "predicates": '--model MODEL_OF_ARGUMENTS "..."',
    "both": '"..."',
}


@dataclass(frozen=True)
class About:
    """What a model is, whoever trained it.

    Args:
        title: of the card.
        tag: for the Hub.
        facts: rows of the first table.
        use: how to load it from ``{folder}``.
        languages: their codes.
    """

    title: str
    tag: str
    facts: Mapping[str, Any]
    use: str
    languages: Sequence[str] = ()


def of_translation(model: Any) -> About:
    """A model that ``translation.to_hf`` gave."""
    config = model.config
    languages = (config.source_lang, config.target_lang)
    facts = {
        "attention of the encoder": config.attention,
        "layers": f"{config.num_hidden_layers} and {config.decoder_layers}",
        "width": config.hidden_size,
        "parameters": f"{model.num_parameters():,}",
    }
    title = f"Translation, {' to '.join(languages)}, {config.attention}"
    return About(title, "translation", facts, _TRANSLATION, languages)


def of_words(config: Mapping[str, Any], parameters: int) -> About:
    """A tagger or a model of sentences.

    Args:
        config: its ``config.json``.
        parameters: how many, without the vectors of words that training lacks.
    """
    task = task_of(config)
    assert task is not None
    stored = config["task_state"][task]
    sizes, words = stored["config"], stored["vocabulary"]
    facts = {
        "labels": len(config["label2id"]),
        "words": f"{len(words['words']):,}",
        "further words with vectors": f"{len(words['frozen']):,}",
        "parameters": f"{parameters:,}",
    }
    if task == "sentences":
        name, kind = sizes["context"], sizes["kind"]
        facts = {"context": name, "pool": sizes["pool"], "width": sizes["hidden_size"], **facts}
        given = _GIVEN[Kind(kind).shape]
        use = _WORDS.format(auto="AutoModelForSequenceClassification", given=given)
        return About(f"Sentences, {kind}, {name}", "text-classification", facts, use)
    name = sizes["attention"]["name"]
    target = {"arguments": "arguments of given predicates", "both": "predicates and arguments"}
    asked = stored.get("target", "arguments")
    facts = {
        "task": target.get(asked, "predicates"),
        "attention": name,
        "layers": sizes["layers"],
        **facts,
    }
    use = _WORDS.format(auto="AutoModelForTokenClassification", given=_GIVEN[asked])
    return About(f"Semantic roles, {name}", "token-classification", facts, use)


def find_record(checkpoint: Path) -> Path | None:
    """The ``run.json`` of `selfattn runs` beside a checkpoint, or above its folder."""
    records = (folder / RECORD for folder in checkpoint.absolute().parents[:2])
    return next(filter(Path.is_file, records), None)


# What a record says of training, and the lines of its table of scores.
Record = tuple[dict[str, Any], list[str]]


def read_record(given: Path | None, checkpoint: Path) -> Record:
    """What the card tells of a checkpoint's ``run.json``, which is little if there is none.

    Args:
        given: the record; by default that which ``find_record`` finds.
        checkpoint: the model. A record found for it has the scores of the one that was tested.

    Raises:
        UserError: if the record cannot be read.
    """
    path = given or find_record(checkpoint)
    record = read_object(path) if path is not None else {}
    other = tested(path.parent, record) if path is not None and given is None else None
    try:
        training, scores = _training(record), _scores(record)
        if other is not None and _is_another(checkpoint, other):
            scores = [f"None are recorded: those in {RECORD} are of {other.name}, not of this."]
        return training, scores or ["No scores are recorded."]
    except (AttributeError, TypeError, LookupError):
        raise UserError(f"{path} is not a record of `selfattn runs`") from None


def _is_another(checkpoint: Path, tested: Path) -> bool:
    """Whether a checkpoint of a run is not the one that was tested; other names are the user's."""
    of_a_run = checkpoint.name.startswith(("checkpoint", "average"))
    return of_a_run and checkpoint.name != tested.name


def write_card(
    folder: Path, name: str, about: About, record: Record, license: str | None, data: str | None
) -> None:
    """Write ``README.md``: what the model is, how it was trained, what it scores.

    What nobody said or measured is named as missing.

    Args:
        folder: of the model.
        name: the folder's name, for those who load it.
        about: what the model is.
        record: of its run.
        license: name of the licence, such as ``cc-by-sa-4.0``.
        data: what the model was trained on, in words.
    """
    head = ["library_name: transformers", f"tags: [selfattn, {about.tag}]"]
    head += [f"language: {json.dumps(about.languages)}"] if about.languages else []  # no is false
    head += [f"license: {json.dumps(license)}"] if license else []
    facts = {
        **about.facts,
        "data": data or "not stated",
        "licence": license or "not stated",
        **record[0],
    }
    lines = [
        "---", *head, "---", "", f"# {about.title}", "",
        "| | |", "|---|---|", *(f"| {f} | {_cell(value)} |" for f, value in facts.items()), "",
        "## Scores", "", *record[1], "", "## Use", "", about.use.format(folder=name), "",
    ]  # fmt: skip
    write_text(folder / "README.md", "\n".join(lines))


def _cell(value: Any) -> str:
    """A value in one line of a table."""
    return " ".join(str(value).split()).replace("|", "\\|")


def _training(record: Mapping[str, Any]) -> dict[str, Any]:
    last = (record.get("attempts") or [{}])[-1]
    found = {
        "run": record.get("run"),
        "seed": record.get("seed"),
        "updates of the run": record.get("updates"),
        "commit": ", ".join(record.get("commits") or ()),
        "hardware": record.get("gpu") or last.get("cpu"),
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _scores(record: Mapping[str, Any]) -> list[str]:
    signatures = record.get("signatures") or {}
    rows = [
        f"| {_cell(test)} | {metric} | {short(value)} | {_cell(signatures.get(metric, ''))} |"
        for test, scores in (record.get("scores") or {}).items()
        for metric, value in scores.items()
    ]
    return ["| text | metric | score | signature |", "|---|---|---|---|", *rows] if rows else []
