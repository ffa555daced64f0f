"""Positional masks, which keys a query may see, and the check of masks that callers give.

A positional mask is an interval of offsets ``key - query``. Everything an operator needs (the keys
a block of queries touches, the rows that see nothing) follows from the two ends of that interval,
so that no ``T x T`` tensor has to exist outside of tests.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .errors import UserError, check_boolean, check_choice, check_integer

# Beyond every length, and offsets that far fit into the 32 bits of kernels on GPUs.
LONGEST_WINDOW = 1 << 29
DIRECTIONS = ("forward", "backward", "none")
MASK_LAYOUTS = ("none", "forward", "backward", "forward_backward")
_PAD = "padding: an attention mask of 1 = keep becomes one by padding_mask = attention_mask == 0"


def check_padding_mask(
    padding_mask: Any, shape: Sequence[int] | None = None, axes: str = "(B, T)"
) -> None:
    """Refuse a padding mask of another dtype or shape; None is accepted.

    Args:
        padding_mask: what a caller gave.
        shape: what it must have; None: any.
        axes: names of its dimensions, for the message.

    Raises:
        UserError: if it is not a bool tensor of that shape. A mask of 1 = keep, as tokenizers make
            them, would hide everything but padding.
    """
    _check_mask("padding_mask", padding_mask, shape, axes, _PAD)


def as_masks(masks: Any) -> tuple["PositionalMask", ...]:
    """One mask, or several, as a tuple.

    Raises:
        UserError: if there is none, or anything else among them.
    """
    if masks is None:
        raise UserError("masks is missing; give one PositionalMask, or several")
    found = tuple(masks) if isinstance(masks, Iterable) else (masks,)
    if not found:
        raise UserError("masks is empty; give one PositionalMask, or several")
    if wrong := [mask for mask in found if not isinstance(mask, PositionalMask)]:
        raise UserError(f"masks holds {wrong[0]!r}; it must hold PositionalMask alone")
    return found


def visible_pairs(
    masks: Sequence["PositionalMask"],
    length: int,
    padding_mask: Tensor | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Which keys a query of each head sees, bool ``(B or 1, H, T, T)``, [query, key].

    Args:
        masks: of the H heads.
        length: tokens T.
        padding_mask: bool ``(B, T)``, True = padding, which is never a key.
        device: of the result.

    Raises:
        UserError: if the padding mask is not bool, or of another length.
    """
    check_padding_mask(padding_mask, (*getattr(padding_mask, "shape", ())[:1], length))
    visible = stacked(as_masks(masks), length, device)[None]
    return visible if padding_mask is None else visible & ~padding_mask[:, None, None, :]


def stacked(
    masks: Sequence["PositionalMask"],
    length: int,
    device: torch.device | str | None = None,
    queries: slice = slice(None),
    dim: int = 0,
) -> Tensor:
    """Whole masks of H heads, bool ``(H, queries, T)``, or with the heads at another dimension.

    Equal masks are made once: in an exported graph, every operation is a node.
    """
    made = {mask: mask.allowed(length, device)[queries] for mask in dict.fromkeys(masks)}
    return torch.stack([made[mask] for mask in masks], dim)


def padding_from_lengths(lengths: Tensor | Sequence[int], length: int | None = None) -> Tensor:
    """A padding mask of sentences that begin at their first position.

    Args:
        lengths: tokens of each sentence, integers ``(B,)``.
        length: tokens T of the padded batch. Default: the longest sentence's.

    Returns:
        Bool ``(B, T)``, True = padding.

    Raises:
        UserError: if the lengths are not whole numbers from 0 to T in one dimension.

    Example:
        >>> padding_from_lengths([3, 1]).int().tolist()
        [[0, 0, 0], [0, 1, 1]]
    """
    sizes = torch.as_tensor(lengths)
    sizes = sizes if sizes.numel() else sizes.long()
    if sizes.dim() != 1 or sizes.is_floating_point() or sizes.dtype is torch.bool:
        raise UserError(
            f"lengths have shape {tuple(sizes.shape)} and dtype {sizes.dtype}; they must be "
            "integers (B,)"
        )
    least, most = (int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0)
    length = max(most, 0) if length is None else check_integer("length", length, 0)
    if least < 0 or most > length:
        raise UserError(f"lengths lie between {least} and {most}; they must be in [0, {length}]")
    return torch.arange(length, device=sizes.device) >= sizes[:, None]


def padding_from_attention_mask(attention_mask: Tensor, name: str = "attention_mask") -> Tensor:
    """A padding mask from the attention mask of a tokenizer.

    Args:
        attention_mask: ``(B, T)`` of any dtype, 1 or True = keep, 0 or False = padding.
        name: what it is called, for the message.

    Returns:
        Bool ``(B, T)``, True = padding.

    Raises:
        UserError: if it has another shape or other values.
    """
    attention_mask = torch.as_tensor(attention_mask)
    if attention_mask.dim() != 2:
        raise UserError(f"{name} has shape {tuple(attention_mask.shape)}; it must be (B, T)")
    padding = attention_mask == 0
    _check_values(name, attention_mask, padding | (attention_mask == 1), "0 and 1")
    return padding


def from_additive(mask: Tensor | None, name: str = "padding_mask") -> Tensor | None:
    """A mask of ``torch.nn`` as bool: torch hands bool masks on to its own layers as floats.

    Args:
        mask: bool, True = hidden, or floating, 0 = visible and -inf = hidden.
        name: what it is called, for the message.

    Returns:
        Bool of the same shape, True = hidden; None for None.

    Raises:
        UserError: if it is neither, or holds another number.
    """
    if not isinstance(mask, Tensor) or not mask.is_floating_point():
        _check_mask(name, mask, None, "", _PAD if name == "padding_mask" else "hidden")
        return mask
    hidden = mask == float("-inf")
    _check_values(name, mask, hidden | (mask == 0), "0 and -inf")
    return hidden


def _check_values(name: str, mask: Tensor, known: Tensor, allowed: str) -> None:
    if not holds(known.all(), f"{name} holds another number; allowed are {allowed}"):
        raise UserError(f"{name} holds {mask[~known][0].item()}; allowed are {allowed}")


def holds(condition: Tensor, otherwise: str) -> bool:
    """Whether a condition on values is true, where they can be read; a UserError under vmap.

    Args:
        condition: bool, one element.
        otherwise: what a compiled graph says, which cannot branch, but ends in a RuntimeError.
    """
    if condition.is_meta:
        return True
    if torch.compiler.is_compiling():
        torch._assert_async(condition, otherwise)
        return True
    try:
        return bool(condition)
    except RuntimeError:
        if not torch._C._are_functorch_transforms_active():
            raise
        message = "torch.func.vmap hides the numbers of a mask, which cannot be checked; give bool"
        raise UserError(f"{message} masks, which selfattn.models.Encoder passes on") from None


def check_selections(shape: Sequence[int], **selections: Any) -> None:
    """Refuse selections of tokens, by name, that are not bool ``(B, T)``; None is accepted.

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
        UserError: if the direction is unknown, ``include_self`` no bool, or the window not an
            integer from 1 to ``LONGEST_WINDOW``.

    Differs:
        Without a direction the authors' code, but for translation, hides a token from itself.

    Example:
        >>> PositionalMask("forward").allowed(3).int().tolist()  # rows are queries
        [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    """

    direction: str = "none"
    include_self: bool = False
    window: int | None = None

    def __post_init__(self) -> None:
        check_choice("mask direction", self.direction, DIRECTIONS)
        check_boolean("mask include_self", self.include_self)
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
        return self.key_range(stop - 1, start + 1, length)

    def block(
        self, start: int, stop: int, lo: int, hi: int, device: torch.device | str | None = None
    ) -> Tensor:
        """Which keys ``[lo, hi)`` the queries ``[start, stop)`` see, bool ``(n_q, n_k)``."""
        query = torch.arange(start, stop, device=device)[:, None]
        key = torch.arange(lo, hi, device=device)
        left, right = self.offsets
        visible = torch.ones(stop - start, hi - lo, dtype=torch.bool, device=device)
        if left is not None:
            visible &= key >= query + left
        if right is not None:
            visible &= key <= query + right
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
    check_choice("masks", layout, MASK_LAYOUTS)
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
