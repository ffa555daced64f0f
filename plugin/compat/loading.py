"""Reading checkpoints and archives without running or misplacing anything in them."""

import atexit
import contextlib
import functools
import lzma
import os
import shlex
import shutil
import tarfile
import tempfile
import types
import zlib
from collections.abc import Iterator
from typing import Any

import torch
from fairseq import checkpoint_utils, file_utils
from fairseq.data import FastaDataset
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters

from selfattn.errors import UserError
from selfattn_tasks.checkpoints import allow_types

from ._patch import wrap


@contextlib.contextmanager
def _loads(weights_only: bool) -> Iterator[None]:
    """Let ``torch.load`` read only tensors and the allowed types in a block, or everything."""
    load = torch.load
    torch.load = functools.partial(load, weights_only=weights_only)
    try:
        yield
    finally:
        torch.load = load


@wrap(checkpoint_utils, "load_ema_from_checkpoint")
@wrap(checkpoint_utils, "load_checkpoint_to_cpu")
def allow_checkpoint_types(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Let ``torch.load`` read what fairseq writes, and nothing else.

    Break: fairseq/checkpoint_utils.py, load_checkpoint_to_cpu and load_ema_from_checkpoint
    (``--ema-seed-model``), calls torch.load with the default: torch >= 2.6 refuses the
    argparse.Namespace of the model's flags and the numpy values of the metrics, and with
    TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD, a common way around this, it runs what a file holds. Fix: name
    those harmless types, and say ``weights_only`` for every file.
    """
    with _loads(weights_only=True), allow_types():
        return original(*args, **kwargs)


@wrap(distributed_utils, "_broadcast_object_slow")
def trust_own_broadcast(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the other processes unpickle the state that rank 0 sends them when a run resumes.

    Break: fairseq/distributed/utils.py, _broadcast_object_slow, calls torch.load on a buffer with a
    class of fairseq's own. Fix: allow everything there, since the bytes come from our own rank 0
    and not from a file.
    """
    with _loads(weights_only=False):
        return original(*args, **kwargs)


@wrap(meters.MetersDict, "load_state_dict")
def restore_meters_only(original: Any, self: meters.MetersDict, state_dict: list[Any]) -> Any:
    """Refuse a checkpoint whose metrics name anything but a meter.

    Break: fairseq/logging/meters.py calls any global of that module that a checkpoint names. Fix:
    check the names.
    """
    for _, key, name, _ in state_dict:
        kind = getattr(meters, str(name), None)
        if not (isinstance(kind, type) and issubclass(kind, meters.Meter)):
            raise UserError(f"the checkpoint's metric {key!r} is a {name!r}, which is not a meter")
    return original(self, state_dict)


class _Archive(tarfile.TarFile):
    """A tar archive that is unpacked below the target and nowhere else."""

    def extractall(self, path: Any = ".", *args: Any, **kwargs: Any) -> None:
        if not hasattr(tarfile, "data_filter"):
            raise tarfile.TarError("this Python is older than 3.10.12 or 3.11.4, which check names")
        for member in self:
            outside = member.name.startswith("/") or ".." in member.name.split("/")
            # tarfile's "data" would strip the slash, and allow links inside the target.
            if outside or not (member.isfile() or member.isdir()):
                raise tarfile.TarError(
                    f"it holds {member.name!r}, which is not a file or folder inside the archive"
                )
        super().extractall(path, *args, **{**kwargs, "filter": "data"})


file_utils.tarfile = types.SimpleNamespace(open=_Archive.open)


@wrap(file_utils, "load_archive_file")
def unpack_safely(original: Any, archive_file: str) -> str:
    """Unpack a model's archive into a folder of its own, and keep the archive.

    Break: fairseq/file_utils.py, load_archive_file, follows absolute paths, ``..`` and links out of
    the folder, and replaces a local archive by its content. Fix: refuse such members, backed by
    tarfile's ``data`` filter; unpack a local archive to a folder that is removed at exit.
    """
    try:
        found = (_unpack if os.path.isfile(archive_file) else original)(archive_file)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        raise UserError(f"the archive {archive_file} is not unpacked: {reason}") from error
    if found is None:
        raise UserError(f"{archive_file} is not a folder, archive or address of a model")
    return str(found)


def _unpack(archive_file: str) -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with _Archive.open(archive_file) as archive:
        archive.extractall(folder)
    top = os.listdir(folder)
    inner = os.path.join(folder, top[0]) if len(top) == 1 else folder
    return inner if os.path.isdir(inner) else folder


@wrap(FastaDataset, "_build_index")
def keep_names_out_of_the_shell(original: Any, self: FastaDataset, path: str) -> Any:
    """Refuse a FASTA file whose name a shell would run.

    Break: fairseq/data/fasta_dataset.py pastes the name into a command line, and so opens all files
    of a data folder whose names end in ``.fasta``, whatever the task. Fix: refuse them.
    """
    if shlex.quote(path) != path:
        raise UserError(f"{path}.fasta has a name that a shell would not take literally")
    return original(self, path)
