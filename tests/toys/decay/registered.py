"""Lists the mechanism as `selfattn/config/__init__.py` and `selfattn/layers/__init__.py` do.

``pytest -p tests.toys.decay.registered`` runs tests with it.
"""

from selfattn.config import CONFIGS
from selfattn.layers import ATTENTIONS

from . import Decay, DecayConfig

CONFIGS["decay"] = DecayConfig  # type: ignore[index]
ATTENTIONS["decay"] = Decay
