"""Large files from the network: resumed, checked, and under their name only when complete.

Own code, because neither pooch 1.9 nor torch.hub resumes: both open the file anew and ask for all
of it, and a broken connection at the end of some gigabytes would cost them all.
"""

import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.folder import sha256_of
from selfattn_tasks.progress import Progress, Show

TIMEOUT = 30.0
ATTEMPTS = 3
_BLOCK = 1 << 18
_NETWORK = (
    urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError,
)  # fmt: skip


def verify(path: Path, digest: str, show: Show) -> None:
    """Compare a file with ``sha256:HEX``.

    Raises:
        UserError: if the checksum is another one.
    """
    progress = Progress(show, f"checking {path.name}", path.stat().st_size, "bytes")
    found, expected = sha256_of(path, progress.update), digest.removeprefix("sha256:")
    if found != expected:
        raise UserError(
            f"{path} has the sha256 {found}, but must have {expected}: it is damaged or another "
            "version"
        )


def fetch(url: str, path: Path, *, size: int, digest: str, show: Show) -> None:
    """Download ``url`` into ``path``, resuming where an earlier call was interrupted.

    What has arrived is kept as ``PATH.part``; ``path`` appears when the checksum is right.

    Args:
        url: ``http``, ``https`` or ``file``.
        path: the file to make.
        size: bytes that it must have.
        digest: ``sha256:HEX``.
        show: takes a line of progress now and then.

    Raises:
        UserError: if the server cannot be reached, refuses, stops sending again and again, or sends
            another file.
    """
    path = Path(os.path.realpath(path))  # a link stays
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    failures = 0
    while (before := _size(partial)) < size:
        reason = "the connection was closed before the end"
        try:
            _receive(url, partial, size, show)
        except urllib.error.HTTPError as error:
            if error.code < 500:
                reason = f"the server answers {error.code} {error.reason}"
                raise UserError(_sentence(url, partial, size, reason)) from None
            reason = f"{error.code} {error.reason}"
        except _NETWORK as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
        except ValueError as error:  # no URL
            raise UserError(_sentence(url, partial, size, str(error))) from None
        if (now := _size(partial)) >= size:
            break
        failures = 1 if now > before else failures + 1
        if failures == ATTEMPTS:
            raise UserError(_sentence(url, partial, size, reason))
        time.sleep(failures)
    try:
        verify(partial, digest, show)
    except UserError:
        # Resuming from wrong bytes could never end well.
        partial.unlink()
        raise
    partial.replace(path)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _receive(url: str, partial: Path, size: int, show: Show) -> None:
    """Append to ``partial`` until the server stops; from the start if it cannot resume."""
    have = _size(partial)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        resumed = getattr(response, "status", None) == http.client.PARTIAL_CONTENT
        start = have if resumed else 0
        progress = Progress(show, f"downloading {partial.stem}", size, "bytes", start)
        with partial.open("ab" if resumed else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                progress.update(len(block))


def _sentence(url: str, partial: Path, size: int, reason: str) -> str:
    have = _size(partial)
    kept = f"; {have:,} of {size:,} bytes are kept, and the same command resumes there"
    return f"cannot download {url}: {reason}{kept if have else ''}"
