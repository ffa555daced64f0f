"""What an attention layer does with a sentence, as a picture and as numbers.

After Appendix E of the MTSA paper (weights of pairs and of tokens) and Figure 2 of the ReSAN paper
(selected tokens).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from selfattn.errors import UserError
from selfattn.layers import Inspection

from .attention_layout import Section, Sheet, stack
from .attention_panels import PARTS, pairs_section, selection_section, strip_section, title_section
from .figures import save_pair

_PER_HEAD = ("token2token", "source2token", "gate")
# Name in JSON, where "heads" are numbers of attention heads, and field of an inspection.
_SELECTION = {
    "selected_heads": "heads",
    "selected_dependents": "dependents",
    "head_probability": "head_probability",
    "dependent_probability": "dependent_probability",
}
_DIGITS = 8


@dataclass(frozen=True)
class Look:
    """One layer on one sentence.

    Args:
        tokens: the sentence as the layer sees it.
        inspection: what the layer did; a batch of one.
        layer: its number, from 1.
        layers: how many the model has.
        attention: the mechanism's name.
        heads: numbers of the heads in ``inspection``, from 1.
        predicate: position of a tagger's predicate, from 0.
    """

    tokens: tuple[str, ...]
    inspection: Inspection
    layer: int
    layers: int
    attention: str
    heads: tuple[int, ...]
    predicate: int | None = None

    def with_heads(self, heads: Sequence[int]) -> Look:
        """Only these heads.

        Raises:
            UserError: if the layer has no such head.
        """
        if not self.heads:
            raise UserError(f"--heads: layer {self.layer} has no heads; leave --heads out")
        for head in heads:
            if head not in self.heads:
                raise UserError(
                    f"--heads {head}: layer {self.layer} has the heads {self.heads[0]} to "
                    f"{self.heads[-1]}"
                )
        kept = [self.heads.index(head) for head in heads]
        seen = self.inspection
        fields: dict[str, Any] = {"masks": tuple(seen.masks[i] for i in kept)}
        for name in _PER_HEAD:
            value = getattr(seen, name)
            if value is not None and value.shape[1] == len(seen.masks):
                fields[name] = value[:, kept]
        return replace(self, heads=tuple(heads), inspection=replace(seen, **fields))

    @property
    def parts(self) -> list[str]:
        """What there is to show: some of PARTS."""
        seen = self.inspection
        there = [name for name in _PER_HEAD if getattr(seen, name) is not None]
        selects = seen.heads is not None or seen.dependents is not None
        return [*there, "selection"] if selects else there

    def numbers(self, parts: Sequence[str]) -> dict[str, Any]:
        """The numbers behind the picture, for JSON; ``token2token[head][query][key]``."""
        found: dict[str, Any] = {
            "layer": self.layer,
            "attention": self.attention,
            "heads": list(self.heads),
            "masks": list(self.inspection.masks),
        }
        names = {part: part for part in _PER_HEAD if part in parts}
        if "selection" in parts:
            names |= _SELECTION
        for key, name in [*names.items(), ("blocks", "blocks")]:
            value = getattr(self.inspection, name)
            if value is not None:
                value = value[0].detach().cpu()
                if value.is_floating_point():
                    value = value.double().round(decimals=_DIGITS)
                found[key] = value.tolist()
        return found


def picture(look: Look, parts: Sequence[str], title: str = "") -> Any:
    """What one layer did, as matplotlib's figure.

    Raises:
        UserError: if matplotlib is not installed.
    """
    seen = look.inspection
    blocks, heads = (None if t is None else t[0].tolist() for t in (seen.blocks, seen.heads))
    sheet = Sheet(look.tokens, look.predicate, blocks, heads)
    where = f"layer {look.layer} of {look.layers}, {look.attention}"
    sections = [title_section(f"{title}: {where}" if title else where, _legend(look, parts))]
    for part in PARTS:
        if part in parts:
            sections += _sections(part, look, sheet)
    return stack(sections)


def draw(look: Look, prefix: Path, parts: Sequence[str], title: str = "") -> list[Path]:
    """Write the :func:`picture` to files.

    Returns:
        PREFIX.png and PREFIX.svg. The words of the SVG are text.
    """
    return save_pair(picture(look, parts, title), prefix)


def _sections(part: str, look: Look, sheet: Sheet) -> list[Section]:
    seen = look.inspection
    if part == "selection":
        kinds = (
            ("heads", seen.heads, seen.head_probability),
            ("dependents", seen.dependents, seen.dependent_probability),
        )
        chosen = [(name, _array(s), _array(p)) for name, s, p in kinds if s is not None]
        return [selection_section(sheet, chosen)]
    values = _array(getattr(seen, part))
    if part == "token2token":
        return pairs_section(sheet, values, look.heads, seen.masks)
    rows = [""] * len(values)
    if len(values) == len(look.heads):
        rows = [f"head {head}" for head in look.heads]
    if part == "source2token":
        title = "source2token: weight of a token for the whole sentence"
        return [strip_section(sheet, title, "weight", values, rows, None)]
    title = "fusion gate: share of itself that a token keeps beside what it attends to"
    return [strip_section(sheet, title, "share, 0 to 1", values, rows, 1.0)]


def _legend(look: Look, parts: Sequence[str]) -> str:
    words = []
    if "token2token" in parts or "source2token" in parts:
        words.append("a row of weights sums to 1")
    if "token2token" in parts:
        hidden = "not visible" if look.inspection.heads is None else "not visible or not selected"
        words.append(f"white: weight near 0; hatched grey: {hidden}")
    if look.inspection.blocks is not None:
        words.append("black lines: borders of blocks")
    if look.predicate is not None:
        words.append("orange: the predicate")
    return "; ".join(words)


def _array(value: torch.Tensor | None) -> Any:
    return None if value is None else value[0].detach().cpu().numpy()
