"""Reading checkpoints with torch >= 2.6, where ``torch.load`` accepts plain tensors only."""

import functools
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils

from selfattn.checkpoints import safe_types

from ._patch import wrap


def allow_checkpoint_types() -> None:
    """Let ``torch.load`` read what fairseq writes.

    Break: fairseq/checkpoint_utils.py, load_checkpoint_to_cpu, calls torch.load with the default
    ``weights_only=True``, which refuses the argparse.Namespace of the model's flags and the numpy
    values of the metrics. Fix: name those harmless types; weights_only stays on for every file.
    """
    torch.serialization.add_safe_globals(safe_types())


def trust_own_broadcast() -> None:
    """Let the other processes unpickle the state that rank 0 sends them when a run resumes.

    Break: fairseq/distributed/utils.py, _broadcast_object_slow, calls torch.load on a buffer that
    holds a fairseq class of its own. Fix: allow everything there, since the bytes come from our own
    rank 0 and not from a file.
    """

    @wrap(distributed_utils, "_broadcast_object_slow")
    def _broadcast_object_slow(original: Any, *args: Any, **kwargs: Any) -> Any:
        load = torch.load
        torch.load = functools.partial(load, weights_only=False)
        try:
            return original(*args, **kwargs)
        finally:
            torch.load = load
