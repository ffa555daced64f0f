"""A layer of this project behind the interface of ``torch.nn.MultiheadAttention``."""

from collections.abc import Sequence

from torch import Tensor, nn

from ..errors import UserError
from ..layers import SelfAttention
from ..masks import PositionalMask, check_padding_mask, from_additive, holds

# Of an attention without masks of its own, whose blocks or samplers look beyond each pair.
BEYOND = "sees beyond its positional masks"
WITHIN = "mtsa, fast_disa, disa or multihead"


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are one, or aliases of one, which backward hooks make of an argument."""
    if one is other:
        return True
    # A view from another function, or with a hook, may have a gradient of its own.
    hooks = [(t._backward_hooks, t._post_accumulate_grad_hooks) for t in (one, other)]
    if one.grad_fn is not other.grad_fn or any(map(any, hooks)):
        return False
    try:
        place = one.data_ptr()
        kinds = [(t.shape, t.stride(), t.dtype, t.requires_grad) for t in (one, other)]
        placed = place != 0 or not one.numel()  # what has no elements is nowhere
        return placed and place == other.data_ptr() and kinds[0] == kinds[1]  # not so: x.detach()
    except RuntimeError:  # torch.func's tensors have no address
        return False


class AsMultihead(nn.Module):
    """Self-attention that is called as ``nn.MultiheadAttention`` is.

    Args:
        attention: a layer with ``output_dim`` equal to ``embed_dim``.
        batch_first: whether tensors are ``(B, T, C)`` instead of ``(T, B, C)``.
        name: the mechanism's name, for messages. Default: that of its configuration.

    Raises:
        UserError: if the layer changes the width of its input.
    """

    # torch.nn's fast paths would read these weights and never call the attention.
    in_proj_weight = None
    in_proj_bias = None
    _qkv_same_embed_dim = False

    def __init__(
        self, attention: SelfAttention, batch_first: bool = False, name: str | None = None
    ) -> None:
        super().__init__()
        config = getattr(attention, "config", None)
        self.name = name or str(getattr(config, "name", type(attention).__name__))
        if attention.output_dim != attention.embed_dim:
            raise UserError(
                f"attention {self.name!r} turns width {attention.embed_dim} into "
                f"{attention.output_dim}, but an encoder layer must keep its width; turn the "
                "output projection on or change the head width"
            )
        self.attention = attention
        self.batch_first = batch_first
        self.embed_dim, self.num_heads = attention.embed_dim, attention.num_heads

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """Self-attention on query.

        Args:
            query: ``(B, T, C)``, or ``(T, B, C)`` without ``batch_first``, or ``(T, C)``.
            key: the same tensor, or an alias of it of the same autograd node and without hooks.
            value: the same tensor.
            key_padding_mask: ``(B, T)``, or ``(T,)``: bool, True = padding, or floating, -inf =
                padding and 0 elsewhere.
            need_weights: ignored: a pair of tokens has no single weight here, so that None
                is returned; see ``SelfAttention.inspect``.
            attn_mask: ``(T, T)`` or ``(B * H, T, T)``, as key_padding_mask; it may only hide what
                the layer's own positional masks hide from all heads.
            average_attn_weights: ignored.
            is_causal: the attn_mask, given or not, hides what comes after a token and no more.

        Returns:
            A tensor of query's shape, and None.

        Raises:
            UserError: if key or value is another tensor than query, query a nested tensor, or a
                mask of another shape, another kind or with another effect.
        """
        if not all(other is None or _same(other, query) for other in (key, value)):
            raise UserError(
                f"attention {self.name!r} is self-attention; key and value must be the query, the "
                "same object: leave cross-attention as it was, swap(..., only=...); FSDP's mixed "
                "precision makes three of them: shard whole layers"
            )
        if query.is_nested:
            raise UserError(
                f"attention {self.name!r} takes no nested tensor; give a padded batch and its "
                "key_padding_mask, and nn.TransformerEncoder enable_nested_tensor=False"
            )
        padding = from_additive(key_padding_mask)
        x = query
        if query.dim() == 2:
            x, padding = query[None], None if padding is None else padding[None]
        elif not self.batch_first:
            x = query.transpose(0, 1)
        check_padding_mask(padding, x.shape[:2])
        # What is_causal says of a mask is believed, as in torch.
        if not is_causal or self._sees_later(x.shape[1]):
            if attn_mask is not None:
                self._check_hidden(attn_mask, x)
            elif is_causal:
                raise UserError(self._refusal("is_causal"))
        y: Tensor = self.attention(x, padding)
        if query.dim() == 2:
            return y[0], None
        return y if self.batch_first else y.transpose(0, 1), None

    @property
    def _masks(self) -> Sequence[PositionalMask]:
        """Of its heads; none where it sees beyond its positional masks."""
        masks: Sequence[PositionalMask] = getattr(self.attention, "masks", ())
        return masks

    def _sees_later(self, length: int) -> bool:
        """Whether a token sees one that comes after it."""
        last = [mask.offsets[1] for mask in self._masks] or [None]
        return length > 1 and any(offset is None or offset > 0 for offset in last)

    def _check_hidden(self, attn_mask: Tensor, x: Tensor) -> None:
        """Refuse to hide what a head of this layer sees."""
        batch, length = x.shape[:2]
        hidden = from_additive(attn_mask, "attn_mask")
        assert hidden is not None  # for the type checker
        # H may be that of the layer that this one stands for.
        one_each = hidden.dim() == 3 and hidden.shape[0] % max(batch, 1) == 0
        if hidden.shape[-2:] != (length, length) or not (hidden.dim() == 2 or one_each):
            raise UserError(
                f"attn_mask has shape {tuple(hidden.shape)}; it must be (T, T) or (B * H, T, T)"
            )
        message = self._refusal("attn_mask")
        for mask in set(self._masks) or [PositionalMask()]:
            if not holds(~(hidden & mask.allowed(length, x.device)).any(), message):
                raise UserError(message)

    def _refusal(self, what: str) -> str:
        if not self._masks:
            advice = f"it {BEYOND}; take {WITHIN}"
        else:
            advice = (
                "set its switches instead: masks='forward' shows what is before a token, "
                "include_self=True also itself, window=3 what is near"
            )
        return f"{what} hides keys that attention {self.name!r} sees; {advice}"
