"""The tables of a report, for the terminal and for Markdown alike."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..results import Comparison, Report
from ..verdict import seeds_words
from . import cells

# Name of a column to what makes its cell.
Columns = dict[str, Callable[[Comparison], str]]


@dataclass(frozen=True)
class Table:
    """A table of cells."""

    title: str  # above it
    header: list[str]  # names of the columns
    rows: list[list[str]]  # cells, as many as the header has
    left: int  # how many columns at the left are words; the others are numbers
    note: str = ""  # below it; a new line for each thing that is explained


def tables(report: Report) -> list[Table]:
    """All tables, in the order in which they are read."""
    found = [_scores(report), _runs(report)]
    if any(max(c.runs) > 1 for c in report.comparisons):  # of one run a side they are empty
        found += [_welch(report), _beside(report)]
    if any(c.planning for c in report.comparisons):
        found.append(_planning(report))
    found.append(_sentence_level(report))
    return [part for table in found for part in _by_test_set(table)]


def by_title(report: Report) -> dict[str, list[Comparison]]:
    """What is compared, the line above the verdicts of a system, to its comparisons."""
    sentences = {corpus.name: corpus.sentences for corpus in report.test_sets}
    found: dict[str, list[Comparison]] = {}
    for c in report.comparisons:
        n, m = c.runs
        title = (
            f"{c.system} against {c.baseline} on {c.test_set}: {m} and {n} runs, "
            f"{sentences[c.test_set]:,} sentences"
        )
        found.setdefault(title, []).append(c)
    return found


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
        [s.test_set, s.metric, s.system, str(s.runs), cells.score(s.mean, digits)]
        + [cells.score(s.sd, digits), cells.span(s.interval, digits, cells.score)]
        for s in report.summaries
        for digits in [report.settings.digits(s.metric)]
    ]
    return Table(
        "Scores",
        ["test set", "metric", "system", "runs", "mean", "sd", "95 % interval"],
        rows,
        3,
        "sd and interval (Student's) are over seeds."
        + "".join(
            f" {name} {report.settings.scale(name).says_error}: lower is better."
            for name in report.error_rates
        ),
    )


def _runs(report: Report) -> Table:
    metrics, digits = report.settings.metrics, report.settings.digits
    rows = [
        [run.test_set, run.system, run.seed or "?"]
        + [cells.score(run.scores[m], digits(m)) for m in metrics]
        + [run.sha256[:12]]
        for run in report.runs
    ]
    return Table(
        "Every run", ["test set", "system", "seed", *metrics, "SHA-256"], rows, 3,
        "Paths and whole hashes: --json, --csv, --markdown.",
    )  # fmt: skip


def _of_comparisons(report: Report, title: str, columns: Columns, note: str) -> Table:
    """A row for each comparison; a column is its name and the cell of a comparison."""
    named: Columns = {
        "test set": lambda c: c.test_set,
        "metric": lambda c: c.metric,
        "system": lambda c: c.system,
    }
    cell_of = [*named.values(), *columns.values()]
    rows = [[cell(c) for cell in cell_of] for c in report.comparisons]
    return Table(title, [*named, *columns], rows, len(named), note)


def _welch(report: Report) -> Table:
    settings, digits = report.settings, report.settings.digits
    tests = {
        first: sum(
            c.welch is not None and not c.same_files
            for c in report.comparisons
            if c.primary == first
        )
        for first in (True, False)
    }
    level = 100 * (1 - settings.alpha)
    note = (
        f"Primary metric: {settings.primary}. Welch's t-test (1947) over runs, after Holm's "
        f"correction (1979) for its {tests[True]} comparison{'s' * (tests[True] != 1)}, gives the "
        "verdict."
    )
    if len(settings.metrics) > 1:
        note += (
            f" {' and '.join(settings.metrics[1:])}: secondary, corrected for "
            f"{tests[False]} among themselves; they do not change it."
        )
    columns: Columns = {
        "diff.": lambda c: cells.signed(c.difference, digits(c.metric)),
        "95 % interval": lambda c: cells.span(c.welch and c.welch.interval, digits(c.metric)),
        "simultaneous": lambda c: cells.span(c.simultaneous, digits(c.metric)),
        "Welch": lambda c: cells.probability(c.welch and c.welch.p),
        "Holm": lambda c: cells.probability(c.p_holm),
    }
    return _of_comparisons(
        report,
        "Welch's test over runs",
        columns,
        f"{note}\nsimultaneous: all of a family hold their true differences in {level:g} % of "
        "studies (Bonferroni's intervals, Dunn 1961; a little wider than Holm's test asks).",
    )


def _beside(report: Report) -> Table:
    digits = report.settings.digits
    matched = sorted({c.pairs for c in report.comparisons})
    pairs = f"{matched[0]}" if len(matched) == 1 else f"{matched[0]} to {matched[-1]}"
    exact = all(c.permutation.exact for c in report.comparisons)
    columns: Columns = {
        "pair.": lambda c: cells.probability(c.paired and c.paired.p),
        "perm.": lambda c: cells.probability(c.permutation.p),
        "min.": lambda c: cells.probability(c.permutation.smallest),
        "order": lambda c: cells.score(c.order and c.order.limit),
        "both": lambda c: cells.probability(c.both_levels and c.both_levels.p),
        "95 % interval": lambda c: cells.span(
            c.both_levels and c.both_levels.interval, digits(c.metric)
        ),
    }
    return _of_comparisons(
        report,
        "Other tests over runs, uncorrected",
        columns,
        f"pair.: t-test of matched seeds ({pairs}).\n"
        f"perm.: {'exact' if exact else 'sampled'} permutation test (Fisher 1935); min.: the "
        "smallest p that so many runs can reach.\n"
        "order: almost stochastic order (del Barrio et al. 2018, Dror et al. 2019), upper 95 % "
        "limit of epsilon: 0 if each quantile of the runs with the higher mean lies above the "
        "other side's, 0.5 without any order. Below 0.2 these count as the higher ones (Ulmer et "
        "al. 2022), yet with five runs equal systems get there in 10 to 18 % of studies.\n"
        "both: bootstrap over seeds and sentences (Sellam et al. 2022): what other seeds and "
        "another test set would give together; with few seeds it is too narrow.",
    )


def _planning(report: Report) -> Table:
    settings, digits = report.settings, report.settings.digits
    relevant = cells.asked(settings.relevant)
    wanted = cells.asked_share(settings.power)
    columns: Columns = {
        "Hedges' g": lambda c: cells.signed(c.effect.g, 1) if c.effect else "-",
        "95 % interval": lambda c: cells.span(c.effect and c.effect.interval, 1),
        "equiv.": lambda c: cells.probability(c.equivalence_holm),
        "detectable": lambda c: cells.score(c.planning and c.planning.detectable, digits(c.metric)),
        f"runs for {relevant}": seeds_words,
    }
    planned = replace(report, comparisons=[c for c in report.comparisons if c.planning])
    return _of_comparisons(
        planned,
        "Size of the difference, equivalence, what a study can detect",
        columns,
        "Hedges' g (1981): the difference in standard deviations of a run.\n"
        "equiv.: two one-sided Welch tests (Schuirmann 1987) that the difference is below "
        f"{relevant}, corrected by Holm as the differences are.\n"
        f"detectable: the smallest true difference that so many runs find in {wanted} of studies "
        "with a spread as seen here, at the level that Bonferroni leaves each test of a family.\n"
        f"runs for {relevant}: on each side, to find a true {relevant} likewise; the larger number "
        "if the spread was seen too small (upper 80 % limit, Browne 1995).",
    )


def _sentence_level(report: Report) -> Table:
    digits = report.settings.digits
    mcnemar = any(c.sentence.mcnemar_p is not None for c in report.comparisons)
    columns: Columns = {
        "bootstrap": lambda c: cells.probability(c.sentence.bootstrap_p),
        "95 % interval": lambda c: cells.span(c.sentence.interval, digits(c.metric)),
        "random.": lambda c: cells.probability(c.sentence.randomisation_p),
        "McNemar": lambda c: cells.probability(c.sentence.mcnemar_p),
        "McNemar, Holm": lambda c: cells.probability(c.sentence.mcnemar_holm),
        "sd test": lambda c: cells.score(c.sentence.test_set_sd, digits(c.metric)),
        "sd seed": lambda c: cells.score(c.sentence.seed_sd, digits(c.metric)),
        "seeds": lambda c: cells.share(c.sentence.seed_share),
    }
    if not mcnemar:
        del columns["McNemar"], columns["McNemar, Holm"]
    return _of_comparisons(
        report,
        "Tests over sentences, uncorrected",
        columns,
        f"Paired bootstrap and approximate randomisation, {report.settings.samples:,} draws each, "
        "the runs held fixed: they cannot see what another seed would have given. sd test, sd "
        "seed: standard deviation of the difference from the choice of sentences and of seeds; "
        "seeds: share of the seeds in the variance."
        + "\nMcNemar: the exact test (1947) of the sentences that one run alone has right, where "
        "each system has one run; corrected by Holm for the comparisons of a family." * mcnemar,
    )
