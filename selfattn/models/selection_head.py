"""The upper level of sentence selection: which of several sentences answers a question."""

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..layers.base import zero_padding
from .context import build_context
from .dense import dense, logits


class SelectionHead(nn.Module):
    """Logits of candidate sentences, each in the context of the others (Bi-BloSAN table 4).

    ``[u; q; u - q; u * q]`` of each candidate u and the question q (eq. 24), both mapped first,
    goes through a context over the candidates, a dense layer and a linear map.

    Args:
        question_dim: width of the question's vector; the papers pool its embeddings, which is
            ``SentenceEncoder(embed_dim, context="none", input_map=False)``.
        candidate_dim: width of a candidate's vector.
        hidden_size: width of all maps and of a direction of the context (published: 100).
        context: a name in ``selfattn.models.CONTEXTS`` that does not pool.
        activation: of all maps.
        dropout: on the input of every linear map.
        **switches: of the context; see ``build_context``.

    Raises:
        UserError: if the context pools, or a name, a switch or a value is unknown.

    Differs:
        The paper combines u and q themselves; the maps are those of its code and of its parameter
        count.
    """

    def __init__(
        self,
        question_dim: int,
        candidate_dim: int,
        hidden_size: int = 100,
        *,
        context: str = "mtsa",
        activation: str = "relu",
        dropout: float = 0.0,
        **switches: Any,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"activation": activation, "dropout": dropout}
        self.question = dense(question_dim, hidden_size, **options)
        self.candidate = dense(candidate_dim, hidden_size, **options)
        self.context = build_context(context, 4 * hidden_size, hidden_size, **options, **switches)
        if self.context.pools:
            raise UserError(
                f"context {context!r} gives one vector for all candidates; a selection needs one "
                "for each of them"
            )
        self.dense = dense(self.context.out_dim, hidden_size, **options)
        self.logits = logits(hidden_size, 1, dropout)

    def forward(
        self, question: Tensor, candidates: Tensor, candidate_mask: Tensor | None = None
    ) -> Tensor:
        """Score the candidates.

        Args:
            question: ``(B, question_dim)``.
            candidates: ``(B, C, candidate_dim)``, in the order of the text.
            candidate_mask: bool ``(B, C)``, True = padding: no candidate.

        Returns:
            Logits ``(B, C)``, minus infinity at padding.
        """
        q = self.question(question)[:, None]
        u = self.candidate(zero_padding(candidates, candidate_mask))  # whatever is there, also NaN
        q = q.expand_as(u)
        pairs = torch.cat([u, q, u - q, u * q], -1)  # eq. 24, (B, C, 4 h)
        y: Tensor = self.logits(self.dense(self.context(pairs, candidate_mask)))[..., 0]
        return y if candidate_mask is None else y.masked_fill(candidate_mask, float("-inf"))
