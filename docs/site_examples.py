"""What docstrings have and the site does not show: ``Example:`` and Sphinx's roles.

Griffe knows the section as ``Examples:`` alone, and Markdown prints ``:class:`` as it stands.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Names the section as griffe expects it, so that it is shown as code; drops roles."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Griffe's hook: each module, class, function and attribute that it has read."""
        if obj.docstring:
            value = obj.docstring.value
            value = re.sub(r"^Example:$", "Examples:", value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r":(class|func|meth|mod):(?=`)", "", value)
