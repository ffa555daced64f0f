"""Bi-LSTM and Bi-GRU, the recurrent rivals of the papers."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from selfattn.errors import UserError


class BiRecurrent(nn.Module):
    """A recurrent layer in both directions, each as wide as its input (published: 300 and 300).

    Differs:
        PyTorch has two biases a gate, the published models one.
    """

    def __init__(self, embed_dim: int, kind: str) -> None:
        super().__init__()
        layer = {"lstm": nn.LSTM, "gru": nn.GRU}[kind]
        self.rnn = layer(embed_dim, embed_dim, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, 2 C)``; padding must be on the right.

        Raises:
            UserError: if a sentence has padding before a token, or nothing but padding.
        """
        if padding_mask is None:
            y: Tensor = self.rnn(x)[0]
            return y
        lengths = (~padding_mask).sum(1)
        expected = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        if not torch.equal(expected, padding_mask) or int(lengths.min()) < 1:
            raise UserError(
                "padding_mask must hide the end of a sentence only, for a recurrent net"
            )
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.shape[1])
        return y
