"""Two processes on one GPU, gradients averaged by NCCL where it allows that."""

import datetime
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from selfattn.models import EncoderLayer

from ..testing import largest_error
from .results import Results

SHOWN = ("backend", "status", "error", "seconds", "reason")
_BOUND = 1e-5


def run(results: Results) -> None:
    """Compare the gradients of two processes, half of a batch each, with those of one."""
    for backend in ("gloo",) if results.dry else ("nccl", "gloo"):
        if results.find(backend=backend):
            continue
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                words = (folder, backend, results.device)
                how = "fork" if results.dry else "spawn"  # CUDA cannot be forked
                torch.multiprocessing.start_processes(_worker, words, nprocs=2, start_method=how)
                error = float(Path(folder, "error").read_text())
                found = {"status": "ok" if error <= _BOUND else "wrong", "error": error}
            except Exception as reason:  # "Duplicate GPU detected": NCCL says it in its own words
                lines = [line for line in str(reason).splitlines() if line.strip()]
                found = {"status": "refused", "reason": " ".join(lines[-3:])}
        results.add({"backend": backend, **found, "seconds": time.perf_counter() - start})


def _worker(rank: int, folder: str, backend: str, device: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    place = f"file://{folder}/meeting"
    limit = datetime.timedelta(seconds=120)
    dist.init_process_group(backend, place, world_size=2, rank=rank, timeout=limit)
    torch.manual_seed(1)
    layer = EncoderLayer(32, 2, 64, dropout=0.0, batch_first=True).to(device)
    x = torch.randn(4, 20, 32, device=device)
    layer(x).square().mean().backward()
    alone = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
    layer.zero_grad(set_to_none=True)
    parallel = nn.parallel.DistributedDataParallel(layer)
    parallel(x[2 * rank :][:2]).square().mean().backward()
    shared = [p.grad for p in layer.parameters() if p.grad is not None]
    if rank == 0:
        Path(folder, "error").write_text(str(largest_error(alone, shared)))
    dist.barrier()
    # The destructor of gloo can wait, with the GIL, for a thread of its own that waits for the GIL.
    os._exit(0)
