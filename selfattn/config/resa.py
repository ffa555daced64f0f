"""Configuration of ReSA and its published forms."""

from dataclasses import dataclass

from .base import ACTIVATIONS, switch
from .disa import DiSAConfig


@dataclass(frozen=True)
class ReSAConfig(DiSAConfig):
    """Reinforced self-attention (Shen et al. 2018, IJCAI): DiSA among selected tokens.

    Two samplers select the tokens that attend ("heads", not to be mixed up with ``heads``) and
    those that are attended to ("dependents"). They are trained by policy gradient.

    Raises:
        UserError: if a switch has a value that is not allowed, or the masks do not fit the heads.
    """

    name = "resa"
    formerly = {"soft_attention": True}

    sampler: str = switch(
        "parallel",
        "parallel: reinforced sequence sampling, all tokens at once; iterative: the paper's "
        "baseline, a recurrent network that samples token after token; none: no selection, which "
        "is disa",
        ("parallel", "iterative", "none"),
    )
    shared_selection: bool = switch(
        False, "one selection for both heads and dependents, the paper's ablation"
    )
    unselected: str = switch(
        "dependents",
        "what a token that does not attend gets: the mean of the dependents, of all others, or of "
        "all tokens; nothing: its output is 0, and pooling leaves it out",
        ("dependents", "others", "all", "nothing"),
    )
    soft_attention: bool = switch(
        True,
        "attention among the selected tokens; without it a selected token stays as it is, the "
        "output of others is 0, and there is one selection and no map",
    )
    sampler_hidden: int | None = switch(
        None, "hidden width of a sampler (default: embedding width)"
    )
    sampler_activation: str = switch("elu", "activation of a sampler", ACTIVATIONS)
    sampler_bias_init: float = switch(
        0.0,
        "initial value of a sampler's last bias: above 0 it starts by selecting most of the tokens",
    )
    sampler_lr_scale: float = switch(
        1.0,
        "learning rate of the samplers as a multiple of the optimizer's: their weights are stored "
        "divided by it, which has this effect with Adam and its relatives",
        positive=True,
    )
    test_selection: str = switch(
        "threshold",
        "how a trained model selects: threshold: probability of at least 0.5; sample: at random, "
        "as in training and in the published evaluation",
        ("threshold", "sample"),
    )
    test_seed: int | None = switch(
        None,
        "seed of each batch's selection with sample (default: torch's generator)",
        least=-(2**63),
        most=2**64 - 1,
    )

    presets = {
        # ReSAN eq. 10-15: no direction is left out of the mean, one bias in the gate.
        "paper": {},
        # The authors' code: DiSA's own map and gate, and a mean that leaves out the token itself.
        "code": {**DiSAConfig.presets["code"], "unselected": "others"},
    }
