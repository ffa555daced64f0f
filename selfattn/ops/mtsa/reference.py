"""The slow, obvious form of MTSA: equations 8 and 10-12 as printed, with their n x n x d tensor.

It imports torch and nothing else, so that it shares no mistake with the code that it checks.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def log_sigmoid(x: Tensor) -> Tensor:
    """``F.logsigmoid``, in graphs by softplus: ONNX's is log(sigmoid(x)), which underflows."""
    if not torch.compiler.is_compiling():
        return F.logsigmoid(x)
    return -F.softplus(-x, threshold=40.0).to(x.dtype)  # x below -40; autocast would widen it


def mtsa_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    allowed: Tensor,
    sigma_t: str = "identity",
    bias: Tensor | None = None,
    pair_dropout: Tensor | None = None,
    feature_dropout: Tensor | None = None,
) -> Tensor:
    """Equations 8 and 10-12 of the MTSA paper, feature by feature.

    Below, Tq queries attend to T keys; the whole sentence has Tq = T.

    Args:
        q: queries ``(B, H, Tq, D_i)``.
        k: keys ``(B, H, T, D_i)``.
        v: values ``(B, H, T, D)``.
        s: source2token scores after sigma_s (eq. 9) ``(B, H, T, D)``.
        allowed: bool ``(B or 1, H, Tq, T)``, True where the mask of eq. 10 is 0: the key is seen.
        sigma_t: ``"identity"`` or ``"logsigmoid"``.
        bias: ``(H, Tq, T)``, finite, added where eq. 10 adds the mask.
        pair_dropout: factor on (query, key) pairs ``(B, H, Tq, T)``, 0 or 1 / keep (appendix A.3).
        feature_dropout: factor on (key, feature) pairs ``(B, H, T, D)``, likewise.

    Returns:
        ``(B, H, Tq, D)``; 0 for a query that sees no key.
    """
    r = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # eq. 8, (B, H, Tq, T)
    if sigma_t == "logsigmoid":
        r = log_sigmoid(r)
    if bias is not None:
        r = r + bias
    score = r[..., None] + s[:, :, None]  # eq. 10 without the mask, (B, H, Tq, T, D)
    visible = allowed[..., None]  # (B, H, Tq, T, 1)
    # Rows without a visible key: softmax over an arbitrary finite row, then weight 0, so that
    # neither the forward nor the backward pass meets 0 / 0 or inf - inf.
    alive = visible.any(-2, keepdim=True)  # (B, H, Tq, 1, 1)
    score = score.masked_fill(~visible & alive, float("-inf"))  # the mask of eq. 10
    p = torch.softmax(score, -2) * alive  # eq. 11, (B, H, Tq, T, D)
    if pair_dropout is not None:
        p = p * pair_dropout[..., None]
    if feature_dropout is not None:
        p = p * feature_dropout[:, :, None]
    return (p * v[:, :, None]).sum(-2)  # eq. 12, (B, H, Tq, D)
