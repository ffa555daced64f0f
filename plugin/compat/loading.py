"""Reading checkpoints with torch >= 2.6, where ``torch.load`` accepts plain tensors only."""

import argparse
import functools
from typing import Any

import numpy as np
import torch
from fairseq.distributed import utils as distributed_utils

from ._patch import wrap


def allow_checkpoint_types() -> None:
    """Let ``torch.load`` read what fairseq writes.

    Break: fairseq/checkpoint_utils.py, load_checkpoint_to_cpu, calls torch.load with the default
    ``weights_only=True``, which refuses the argparse.Namespace of the model's flags and the numpy
    values of the metrics. Fix: name those harmless types; weights_only stays on for every file.
    """
    dtypes = ("float64", "float32", "int64", "int32", "bool")
    functions = {
        "_reconstruct": np.array(0).__reduce__()[0],
        "scalar": np.float64(0).__reduce__()[0],
    }
    # A checkpoint names numpy's functions by the module of the numpy that wrote it: 1.x or 2.x.
    aliases = [
        (function, f"numpy.{core}.multiarray.{name}")
        for name, function in functions.items()
        for core in ("core", "_core")
    ]
    torch.serialization.add_safe_globals(
        [argparse.Namespace, np.ndarray, np.dtype]
        + [type(np.dtype(name)) for name in dtypes]
        + aliases  # type: ignore[operator]
    )


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
