"""Source2token scores: how much each feature of each token matters to the whole sentence."""

from torch import Tensor, nn

from ..config.base import SHARINGS
from ..errors import UserError, check_choice, check_integer, check_rate
from .base import activation, join_heads, split_heads, xavier_linear
from .dropout import Dropout
from .linear import PerHeadLinear


class Source2TokenScores(nn.Module):
    """``f(x) = W2 act(W1 x + b1) + b2`` or ``W x + b`` for each head (MTSA eq. 9).

    Args:
        num_heads: number of heads H.
        inputs: input width of a head; with ``sharing="joint"`` of all heads together.
        outputs: output width D of a head.
        layers: 1 or 2.
        hidden: hidden width of a head with two layers.
        sharing: ``"per_head"``, ``"shared"`` (one network for every head) or ``"joint"`` (one
            network over all heads together).
        activation_name: activation between two layers.
        bias_init: initial value of the last bias.
        dropout: dropout on the input of each linear map.

    Raises:
        UserError: if a number is out of range, or the sharing or the activation unknown.
    """

    def __init__(
        self,
        num_heads: int,
        inputs: int,
        outputs: int,
        *,
        layers: int = 2,
        hidden: int | None = None,
        sharing: str = "per_head",
        activation_name: str = "relu",
        bias_init: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if layers not in (1, 2):
            raise UserError(f"layers {layers!r} is not allowed; it must be 1 or 2")
        check_choice("sharing", sharing, SHARINGS)
        num_heads, inputs = check_integer("num_heads", num_heads), check_integer("inputs", inputs)
        outputs = check_integer("outputs", outputs)
        self.num_heads = num_heads
        self.joint = sharing == "joint"
        hidden = outputs if hidden is None else check_integer("hidden", hidden)
        check_rate("dropout", dropout)
        scale = num_heads if self.joint else 1
        sizes = [inputs, outputs * scale]
        if layers == 2:
            sizes.insert(1, hidden * scale)
        steps: list[nn.Module] = []
        for width, width_out in zip(sizes, sizes[1:], strict=False):
            if steps:
                steps.append(activation(activation_name))
            steps.append(Dropout(dropout))
            if sharing == "per_head":
                steps.append(PerHeadLinear(num_heads, width, width_out))
            else:
                steps.append(xavier_linear(width, width_out))
        nn.init.constant_(steps[-1].bias, bias_init)  # type: ignore[arg-type]
        self.network = nn.Sequential(*steps)
        self.bias_init = bias_init

    def kept_parameters(self) -> list[nn.Parameter]:
        """What an initialiser of the whole model leaves as it is."""
        # 0 means no choice was made: in the published taggers this bias is random, too.
        return [self.network[-1].get_parameter("bias")] if self.bias_init else []

    def forward(self, x: Tensor) -> Tensor:
        """Scores from per-head inputs ``(B, H, T, D_in)``, or ``(B, T, C)`` for a joint network.

        Returns:
            ``(B, H, T, D)``.
        """
        if not self.joint:
            scores: Tensor = self.network(x)
            return scores
        return split_heads(self.network(join_heads(x) if x.dim() == 4 else x), self.num_heads)
