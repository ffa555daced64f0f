"""How exact float32 matrix products are, in commands and training."""

import os

from selfattn.errors import UserError

VARIABLE = "SELFATTN_MATMUL_PRECISION"
_ALLOWED = ("highest", "high", "medium")


def set_matmul_precision() -> None:
    """Hand ``SELFATTN_MATMUL_PRECISION``, if it is set, to ``set_float32_matmul_precision``.

    Without a GPU, ``medium`` also keeps PyTorch's attention off its flash kernel: that multiplies
    small blocks, on which oneDNN is nine times slower than MKL. Its memory is then quadratic in
    the number of tokens.

    Raises:
        UserError: if the variable holds anything but torch's three words.
    """
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return
    if chosen not in _ALLOWED:
        raise UserError(
            f"{VARIABLE}={chosen} is not allowed; it must be one of {', '.join(_ALLOWED)}"
        )
    import torch  # here, as it takes a second and most commands' --help need not wait for it

    torch.set_float32_matmul_precision(chosen)
    if chosen == "medium" and not torch.cuda.is_available():
        torch.backends.cuda.enable_flash_sdp(False)  # the switch of the CPU's flash kernel, too
