"""Where trained models compute."""

import torch

from selfattn.errors import UserError


def find_device(device: torch.device | str, flag: str = "the device") -> torch.device:
    """The device of that name; ``flag`` says in messages where it was named.

    Raises:
        UserError: if torch knows or finds none.
    """
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError):  # the latter of a torch that was built without GPUs
        raise UserError(f"{flag} {device} cannot be used here; cpu can") from None
    return found
