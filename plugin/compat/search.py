"""Flags of fairseq-generate and fairseq-interactive that are refused."""

from argparse import Namespace

from selfattn.errors import UserError
from selfattn_tasks.cli import option

from ._patch import check_flags

# Tasks whose generator counts its steps.
_REFINING = ("translation_lev",)


@check_flags
def check_search(flags: Namespace) -> None:
    """Refuse searches that exclude each other, and what a command cannot read or print.

    Break: fairseq's commands end in a traceback once the model is loaded. Fix: look first.
    """

    def given(*names: str) -> list[str]:
        values = {name: getattr(flags, name, None) for name in names}
        return [option(n) for n, v in values.items() if isinstance(v, int | float) and v > 0]

    searches = given("sampling", "diverse_beam_groups", "diversity_rate", "match_source_len")
    if len(searches) > 1:
        raise UserError(f"{' and '.join(searches)} are different searches; give one of them")
    if getattr(flags, "num_shards", 1) > 1:
        raise UserError(
            f"--num-shards {flags.num_shards} has no effect in fairseq's commands: each would take "
            "the whole set; cut the file into parts and give each to its own command"
        )
    for name in ("print_step", "retain_iter_history"):
        if getattr(flags, name, False) and getattr(flags, "task", None) not in _REFINING:
            raise UserError(
                f"{option(name)} is for models that refine what they have written, with --task "
                f"{' or '.join(_REFINING)}, not {flags.task}"
            )
    limits = given("sampling_topk", "sampling_topp")
    if limits and "--sampling" not in searches:
        raise UserError(f"{limits[0]} needs --sampling")
    if not hasattr(flags, "buffer_size"):
        if getattr(flags, "constraints", None):
            raise UserError(
                f"--constraints {flags.constraints} is for fairseq-interactive, which reads them "
                "after each sentence and a tab"
            )
    elif flags.score_reference:
        raise UserError(
            "--score-reference is for fairseq-generate: fairseq-interactive reads no references"
        )
    elif flags.print_alignment == "soft":
        raise UserError(
            "--print-alignment soft is for fairseq-generate; fairseq-interactive prints hard ones"
        )
