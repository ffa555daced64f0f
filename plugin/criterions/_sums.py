"""What is logged of a loss: sums over a batch, and their means over all processes."""

from typing import Any

from fairseq.criterions import FairseqCriterion
from fairseq.logging import metrics


class SummingCriterion(FairseqCriterion):
    """A criterion that logs sums, as several processes on a CPU need it."""

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """True: what is logged are sums."""
        return True

    @staticmethod
    def logged(loss: Any, sample: dict[str, Any], size: int, **more: Any) -> dict[str, Any]:
        """What is logged of a batch: its loss, ``size`` that count, and more sums."""
        target = sample["target"]
        sums = {"loss": loss.data, "nsentences": len(target), "sample_size": size, "ntokens": size}
        return sums | more


def log_mean(
    logging_outputs: list[dict[str, Any]],
    name: str,
    *,
    over: str = "sample_size",
    digits: int = 4,
    percent: str = "",
) -> None:
    """Log a mean, if there is such a sum.

    Args:
        logging_outputs: the sums of each process.
        name: of the sum.
        over: the sum that counts what it is a mean of.
        digits: decimals.
        percent: log it in percent under this name.
    """
    if any(name in log for log in logging_outputs):
        total, count = (float(sum(log.get(n, 0) for log in logging_outputs)) for n in (name, over))
        mean = (100 if percent else 1) * total / max(count, 1)
        metrics.log_scalar(percent or name, mean, count, round=digits)
