"""Flags of tasks, criterions and schedules, which fairseq reads off the fields of dataclasses."""

from dataclasses import field
from typing import Any


def flag(default: Any, text: str) -> Any:
    """A field whose flag has a default and a help text."""
    return field(default=default, metadata={"help": text})
