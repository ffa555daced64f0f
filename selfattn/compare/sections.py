"""The tables of a report, for the terminal and for Markdown alike."""

from __future__ import annotations

from dataclasses import dataclass

from . import cells
from .results import Comparison, Report
from .run_level import MOST_SEEDS


@dataclass(frozen=True)
class Table:
    """A table of cells.

    Args:
        title: above it.
        header: names of the columns.
        rows: cells, as many as the header has.
        left: how many columns at the left are words; the others are numbers.
        note: below it.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    left: int
    note: str = ""


def tables(report: Report) -> list[Table]:
    """All tables, in the order in which they are read."""
    found = [_scores(report), _runs(report), _run_level(report)]
    if any(c.planning for c in report.comparisons):
        found.append(_planning(report))
    found.append(_sentence_level(report))
    return [part for table in found for part in _by_test_set(table)]


def title_of(report: Report, comparison: Comparison) -> str:
    """What is compared: the line above the verdicts of a system."""
    corpus = next(t for t in report.test_sets if t.name == comparison.test_set)
    n, m = comparison.runs
    return (
        f"{comparison.system} against {comparison.baseline} on {corpus.name}: {m} and {n} runs, "
        f"{corpus.sentences:,} sentences"
    )


def _by_test_set(table: Table) -> list[Table]:
    """A table for each test set, which is named above it instead of in a column."""
    names = list(dict.fromkeys(row[0] for row in table.rows))
    return [
        Table(
            f"{table.title} ({name})" if len(names) > 1 else table.title,
            table.header[1:],
            [row[1:] for row in table.rows if row[0] == name],
            table.left - 1,
            table.note if name == names[-1] else "",
        )
        for name in names
    ]


def _scores(report: Report) -> Table:
    rows = [
        [s.test_set, s.metric, s.system, str(s.runs), cells.score(s.mean), cells.score(s.sd)]
        + [cells.span(s.interval, sign=False)]
        for s in report.summaries
    ]
    return Table(
        "Scores",
        ["test set", "metric", "system", "runs", "mean", "sd", "95 % interval"],
        rows,
        3,
        "sd and interval (Student's) are over seeds."
        + (" TER counts errors: lower is better." if "TER" in report.settings.metrics else ""),
    )


def _runs(report: Report) -> Table:
    metrics = report.settings.metrics
    rows = [
        [run.test_set, run.system, run.seed or "?", *(cells.score(run.scores[m]) for m in metrics)]
        + [run.sha256[:12]]
        for run in report.runs
    ]
    return Table(
        "Every run", ["test set", "system", "seed", *metrics, "SHA-256"], rows, 3,
        "Paths and whole hashes: --json, --csv, --markdown.",
    )  # fmt: skip


def _head(c: Comparison) -> list[str]:
    return [c.test_set, c.metric, c.system]


def _run_level(report: Report) -> Table:
    rows = [
        [
            *_head(c),
            cells.signed(c.difference),
            cells.span(c.welch.interval if c.welch else None),
            cells.probability(c.welch.p if c.welch else None),
            cells.probability(c.p_holm),
            cells.probability(c.paired.p if c.paired else None),
            cells.probability(c.permutation.p),
            cells.probability(c.permutation.smallest),
        ]
        for c in report.comparisons
    ]
    matched = sorted({c.pairs for c in report.comparisons})
    pairs = f"{matched[0]}" if len(matched) == 1 else f"{matched[0]} to {matched[-1]}"
    exact = all(c.permutation.exact for c in report.comparisons)
    tested = sum(c.welch is not None for c in report.comparisons)
    header = ["test set", "metric", "system", "diff.", "95 % interval", "Welch", "Holm"]
    return Table(
        "Tests over runs",
        [*header, "pair.", "perm.", "min."],
        rows,
        3,
        f"Welch's t-test is the primary one, fixed in advance; Holm corrects it for {tested} "
        f"comparison{'s' * (tested != 1)}. pair.: t-test of matched seeds ({pairs}). perm.: "
        f"{'exact' if exact else 'sampled'} permutation test; min.: the smallest p that it can "
        "reach with so many runs.",
    )


def _planning(report: Report) -> Table:
    settings = report.settings
    rows = []
    alpha = 0.0
    for c in report.comparisons:
        if (plan := c.planning) is None:
            continue
        alpha = plan.alpha
        observed = cells.count(plan.seeds_observed, MOST_SEEDS)
        if plan.seeds_cautious != plan.seeds_observed:
            observed += f" to {cells.count(plan.seeds_cautious, MOST_SEEDS)}"
        rows.append(
            [
                *_head(c),
                *(cells.effect(c.effect.g, c.effect.interval) if c.effect else ("-", "-")),
                cells.share(plan.power_relevant),
                cells.count(plan.seeds_relevant, MOST_SEEDS),
                cells.share(plan.power_observed),
                observed,
            ]
        )
    relevant = cells.points(settings.relevant)
    header = ["test set", "metric", "system", "Hedges' g", "95 % interval", f"power {relevant}"]
    return Table(
        "Size of the difference, power, number of seeds",
        [*header, "seeds", "power*", "seeds*"],
        rows,
        3,
        f"power {relevant}: share of experiments of this size that would find a true difference of "
        f"{relevant}; seeds: runs a side that would find it in {cells.share(settings.power)}; *: "
        "the same for a true difference as large as the one observed, up to the number that is "
        "needed if the spread was seen too small (upper 80 % limit). Level "
        f"{alpha:.2g}, what Holm asks of the smallest p.",
    )


def _sentence_level(report: Report) -> Table:
    rows = [
        [
            *_head(c),
            cells.probability(c.sentence.bootstrap_p),
            cells.span(c.sentence.interval),
            cells.probability(c.sentence.randomisation_p),
            cells.score(c.sentence.test_set_sd),
            cells.score(c.sentence.seed_sd),
            cells.share(c.sentence.seed_share),
        ]
        for c in report.comparisons
    ]
    header = ["test set", "metric", "system", "bootstrap", "95 % interval", "random."]
    return Table(
        "Tests over sentences",
        [*header, "sd test", "sd seed", "seeds"],
        rows,
        3,
        f"Paired bootstrap and approximate randomisation, {report.settings.samples:,} draws each, "
        "the runs held fixed: they cannot see what another seed would have given. sd test, sd "
        "seed: standard deviation of the difference from the choice of sentences and of seeds; "
        "seeds: share of the seeds in the variance.",
    )
