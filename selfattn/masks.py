"""Positional masks, which keys a query may see, and the check of masks that callers give.

A positional mask is an interval of offsets ``key - query``. Everything an operator needs (the keys
a block of queries touches, the rows that see nothing) follows from the two ends of that interval,
so that no ``T x T`` tensor has to exist outside of tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .errors import UserError, check_integer

# Beyond every length, and offsets that far fit into the 32 bits of kernels on GPUs.
LONGEST_WINDOW = 1 << 29
DIRECTIONS = ("forward", "backward", "none")
MASK_LAYOUTS = ("none", "forward", "backward", "forward_backward")


def check_padding_mask(
    padding_mask: Any, shape: Sequence[int] | None = None, axes: str = "(B, T)"
) -> None:
    """Refuse a padding mask of another dtype or shape; None is always right.

    Args:
        padding_mask: what a caller gave.
        shape: what it must have; None: any.
        axes: names of its dimensions, for the message.

    Raises:
        UserError: if it is not a bool tensor of that shape. A mask of 1 = keep, as tokenizers make
            them, would hide everything but padding.
    """
    true = (
        "padding: an attention mask of 1 = keep becomes one by padding_mask = attention_mask == 0"
    )
    _check_mask("padding_mask", padding_mask, shape, axes, true)


def check_selections(shape: Sequence[int], **selections: Any) -> None:
    """Refuse selections of tokens, by name, that are not bool ``(B, T)``; None is always right.

    Raises:
        UserError: if one is not a bool tensor of that shape.
    """
    for name, selected in selections.items():
        _check_mask(name, selected, shape, "(B, T)", "selected")


def _check_mask(name: str, mask: Any, shape: Sequence[int] | None, axes: str, true: str) -> None:
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype is not torch.bool:
        found = f"dtype {mask.dtype}" if isinstance(mask, Tensor) else f"type {type(mask).__name__}"
        raise UserError(f"{name} has {found}; it must be torch.bool with True = {true}")
    if shape is not None and mask.shape != shape:
        raise UserError(f"{name} has shape {tuple(mask.shape)}; it must be {axes} = {tuple(shape)}")


@dataclass(frozen=True)
class PositionalMask:
    """Which keys a query may see, by position alone (Bi-BloSAN eq. 10, MTSA section 3.2).

    Args:
        direction: ``"forward"`` lets a query see the keys before it, ``"backward"`` the keys after
            it, ``"none"`` all keys.
        include_self: whether a query sees its own position under a direction. Without a direction
            it always does.
        window: if given, only keys with ``|key - query| <= window`` (in tokens) are visible.

    Raises:
        UserError: if the direction is unknown, or the window is not an integer from 1 to
            ``LONGEST_WINDOW``.

    Example:
        >>> PositionalMask("forward").allowed(3).int().tolist()  # rows are queries
        [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    """

    direction: str = "none"
    include_self: bool = False
    window: int | None = None

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise UserError(
                f"mask direction {self.direction!r} is unknown; allowed are {', '.join(DIRECTIONS)}"
            )
        if self.window is not None:
            window = check_integer("mask window", self.window, most=LONGEST_WINDOW)
            object.__setattr__(self, "window", window)

    @property
    def offsets(self) -> tuple[int | None, int | None]:
        """Smallest and largest visible ``key - query``; None where there is no bound."""
        near = 0 if self.include_self else 1
        left = None if self.window is None else -self.window
        right = self.window
        if self.direction == "forward":
            return left, -near
        if self.direction == "backward":
            return near, right
        return left, right

    def key_range(self, start: int, stop: int, length: int) -> tuple[int, int]:
        """Keys ``[lo, hi)`` of T that at least one of the queries ``[start, stop)`` may see."""
        left, right = self.offsets
        lo = 0 if left is None else max(0, start + left)
        hi = length if right is None else min(length, stop + right)
        return lo, max(lo, hi)

    def common_range(self, start: int, stop: int, length: int) -> tuple[int, int]:
        """Keys ``[lo, hi)`` of T that each of the queries ``[start, stop)`` may see."""
        left, right = self.offsets
        lo = 0 if left is None else max(0, stop - 1 + left)
        hi = length if right is None else min(length, start + right + 1)
        return lo, max(lo, hi)

    def block(
        self, start: int, stop: int, lo: int, hi: int, device: torch.device | str | None = None
    ) -> Tensor:
        """Which keys ``[lo, hi)`` the queries ``[start, stop)`` see, bool ``(n_q, n_k)``."""
        query = torch.arange(start, stop, device=device)[:, None]
        offset = torch.arange(lo, hi, device=device)[None, :] - query
        left, right = self.offsets
        visible = torch.ones_like(offset, dtype=torch.bool)
        if left is not None:
            visible &= offset >= left
        if right is not None:
            visible &= offset <= right
        return visible

    def allowed(self, length: int, device: torch.device | str | None = None) -> Tensor:
        """The whole mask as a bool tensor ``(length, length)``, [query, key], True = visible."""
        return self.block(0, length, 0, length, device)

    def visible_keys(self, padding_mask: Tensor) -> Tensor:
        """How many keys each query sees, ``(B, T)``; ``padding_mask`` is bool, True = padding."""
        check_padding_mask(padding_mask)
        length = padding_mask.shape[1]
        real = (~padding_mask).cumsum(1)
        before = torch.cat([real.new_zeros(real.shape[0], 1), real], 1)  # real keys before i
        position = torch.arange(length, device=padding_mask.device)
        left, right = self.offsets
        lo = torch.zeros_like(position) if left is None else position + left
        hi = torch.full_like(position, length) if right is None else position + right + 1
        lo, hi = lo.clamp(0, length), hi.clamp(0, length)
        return (before[:, hi] - before[:, lo]).clamp_min(0)


def head_masks(
    layout: str,
    num_heads: int,
    include_self: bool = False,
    window: int | list[int] | tuple[int, ...] | None = None,
) -> tuple[PositionalMask, ...]:
    """One mask per head from a layout's name (MTSA section 3.2).

    Args:
        layout: ``"none"``, ``"forward"`` or ``"backward"`` for all heads alike, or
            ``"forward_backward"``: the first half of the heads forward, the second half backward.
        num_heads: number of heads.
        include_self: see ``PositionalMask``.
        window: None, one window for all heads, or one for each head.

    Returns:
        A tuple of ``num_heads`` masks.

    Raises:
        UserError: if the layout is unknown, the number of heads is odd under
            ``"forward_backward"``, or the number of windows is not the number of heads.
    """
    if layout not in MASK_LAYOUTS:
        raise UserError(f"masks {layout!r} is unknown; allowed are {', '.join(MASK_LAYOUTS)}")
    if layout == "forward_backward":
        if num_heads % 2:
            raise UserError(
                f"masks 'forward_backward' gives half of the heads to each direction, but the "
                f"number of heads is {num_heads}; it must be even"
            )
        directions = ["forward"] * (num_heads // 2) + ["backward"] * (num_heads // 2)
    else:
        directions = [layout] * num_heads
    windows = list(window) if isinstance(window, (list, tuple)) else [window] * num_heads
    if len(windows) != num_heads:
        raise UserError(
            f"window lists {len(windows)} values for {num_heads} heads; give one value for all "
            f"heads or one for each"
        )
    return tuple(
        PositionalMask(direction, include_self, size)
        for direction, size in zip(directions, windows, strict=True)
    )
