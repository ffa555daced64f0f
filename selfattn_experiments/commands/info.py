"""Say what is installed, what is usable, and what to do about what is not.

Example:

  selfattn info --json > machine.json

`python -m selfattn.info` is the same where only the layers are installed.
"""

from selfattn.info import add_flags
from selfattn.info import report as main

__all__ = ["add_flags", "main"]
