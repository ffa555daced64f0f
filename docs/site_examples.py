"""Docstrings call one example ``Example:``; griffe knows the section as ``Examples:`` alone."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Names the section as griffe expects it, so that it is shown as code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Griffe's hook: each module, class, function and attribute that it has read."""
        if obj.docstring:
            value = obj.docstring.value
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", value, flags=re.MULTILINE)
