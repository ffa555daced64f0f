"""A report as text: for a terminal, the answer first; as CSV, Markdown, LaTeX."""

import textwrap
from collections.abc import Iterator

from selfattn.errors import needed
from selfattn_tasks.files import csv_text

from ..results import Comparison, Report, Summary
from ..run_level import Interval
from . import cells
from .sections import Table, by_title, tables

COLUMNS = "test_set metric system baseline seed file sha256 quantity value".split()
# A longer name is cut where it makes a table wider than the terminal; never to less than this.
_SHORTEST_NAME = 10
Cell = str | float | int | None


def to_csv(report: Report) -> str:
    """One number per line, so that any program can pick what it needs; columns are COLUMNS."""
    return csv_text([COLUMNS, *_csv_rows(report)])


def _csv_rows(report: Report) -> Iterator[list[Cell]]:
    for run in report.runs:
        for metric, value in run.scores.items():
            yield [
                run.test_set, metric, run.system, None, run.seed, str(run.path), run.sha256,
                "score", value,
            ]  # fmt: skip
    for s in report.summaries:
        head: list[Cell] = [s.test_set, s.metric, s.system, None, None, None, None]
        numbers = {"runs": s.runs, "mean": s.mean, "sd": s.sd, **_limits("mean", s.interval)}
        for name, number in numbers.items():
            yield [*head, name, number]
    for c in report.comparisons:
        head = [c.test_set, c.metric, c.system, c.baseline, None, None, None]
        for name, found in quantities(c).items():
            yield [*head, name, found]


def quantities(c: Comparison) -> dict[str, Cell]:
    """Everything found out about a difference, by name; None for what could not be computed."""
    plan, sentence = c.planning, c.sentence
    return {
        "verdict": c.verdict,
        "difference": c.difference,
        "welch_p": c.welch and c.welch.p,
        **_limits("welch", c.welch and c.welch.interval),
        "holm_p": c.p_holm,
        **_limits("simultaneous", c.simultaneous),
        "equivalence_p": c.equivalence,
        "equivalence_holm_p": c.equivalence_holm,
        "paired_p": c.paired and c.paired.p,
        **_limits("paired", c.paired and c.paired.interval),
        "pairs": c.pairs,
        "permutation_p": c.permutation.p,
        "permutation_smallest_p": c.permutation.smallest,
        "order_epsilon": c.order and c.order.violation,
        "order_epsilon_limit": c.order and c.order.limit,
        "both_levels_p": c.both_levels and c.both_levels.p,
        **_limits("both_levels", c.both_levels and c.both_levels.interval),
        "both_levels_equivalence_p": c.both_levels and c.both_levels.equivalence,
        "hedges_g": c.effect and c.effect.g,
        **_limits("hedges_g", c.effect and c.effect.interval),
        "detectable": plan and plan.detectable,
        "seeds_relevant": plan and plan.seeds_relevant,
        "seeds_cautious": plan and plan.seeds_cautious,
        "bootstrap_p": sentence.bootstrap_p,
        **_limits("bootstrap", sentence.interval),
        "randomisation_p": sentence.randomisation_p,
        "mcnemar_p": sentence.mcnemar_p,
        "mcnemar_holm_p": sentence.mcnemar_holm,
        "sd_test_set": sentence.test_set_sd,
        "sd_seed": sentence.seed_sd,
        "seed_share": sentence.seed_share,
    }


def _limits(name: str, interval: Interval | None) -> dict[str, Cell]:
    low, high = interval or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def to_markdown(report: Report) -> str:
    """Verdicts, warnings, tables, signatures, and all files with their hashes."""
    lines = []
    for title, comparisons in by_title(report).items():
        lines += [f"**{title}**", ""]
        lines += [f"- {c.metric}: **{c.verdict}**, {c.words}" for c in comparisons]
        lines.append("")
    if report.warnings:
        lines += ["Warnings:", "", *(f"- {warning}" for warning in report.warnings), ""]
    for table in tables(report):
        lines += [f"**{table.title}**", ""]
        lines += cells.markdown(table.header, table.rows, table.left)
        lines += ["", *(f"- {note}" for note in table.note.splitlines())] if table.note else []
        lines.append("")
    lines += ["**Where this comes from**", "", f"`{report.command}`", ""]
    lines += [
        f"- {test_set}, {metric}: `{signature}`"
        for test_set, signatures in report.signatures.items()
        for metric, signature in signatures.items()
    ]
    lines.append(f"- {', '.join(f'{n} {v}' for n, v in report.versions.items())}")
    files = [[f"`{t.path}`", f"`{t.sha256}`"] for t in report.test_sets]
    files += [[f"`{r.path}`", f"`{r.sha256}`"] for r in report.runs]
    lines += ["", *cells.markdown(["file", "SHA-256"], files, left=2)]
    return "\n".join(lines) + "\n"


def to_latex(report: Report) -> str:
    """A table for a paper (package booktabs): a row for each system, hashes as comments."""
    metrics = report.settings.metrics
    several = len(report.test_sets) > 1
    lead = ["test set"] * several + ["system", "runs"]
    command = report.command.replace("\n", " ")  # a comment ends with its line
    lines = [f"% {command}", r"% needs \usepackage{booktabs}"]
    for test_set, signatures in report.signatures.items():
        lines += [f"% {test_set} {metric}: {text}" for metric, text in signatures.items()]
    lines += [f"% {t.path} {t.sha256}" for t in report.test_sets]
    lines += [f"% {r.path} {r.sha256}" for r in report.runs]
    lines += [rf"\begin{{tabular}}{{{'l' * (several + 1)}r{'rr' * len(metrics)}}}", r"\toprule"]
    heads = [cell for metric in metrics for cell in (metric, "$p$")]
    lines += [" & ".join([*lead, *heads]) + r" \\", r"\midrule"]
    for corpus in report.test_sets:
        for system in report.systems:
            lines.append(_latex_row(report, corpus.name, system, several))
        lines.append(r"\midrule")
    lines[-1] = r"\bottomrule"
    lines += [r"\end{tabular}"]
    lines += [
        r"% Mean $\pm$ standard deviation over seeds. $p$: Welch's t-test against "
        + cells.latex(report.baseline)
        + f", Holm-corrected for {report.settings.primary}, the primary metric, and for the others "
        "among themselves." + (" Nominal: looked at before." * bool(report.settings.looked_after))
    ]
    return "\n".join(lines) + "\n"


def _latex_row(report: Report, test_set: str, system: str, several: bool) -> str:
    found = {m: report.summary(test_set, system, m) for m in report.settings.metrics}
    tests = {
        c.metric: c for c in report.comparisons if (c.test_set, c.system) == (test_set, system)
    }
    row = [test_set] * several + [system, str(next(iter(found.values())).runs)]
    row = [cells.latex(cell) for cell in row]
    for metric in report.settings.metrics:
        digits = report.settings.digits(metric)
        row.append(_latex_score(found[metric], tests.get(metric), digits))
        p = cells.probability(tests[metric].p_holm) if metric in tests else "-"
        row.append(cells.latex(p) if p != "-" else "--")
    return " & ".join(row) + r" \\"


def _latex_score(summary: Summary, test: Comparison | None, digits: int) -> str:
    text = cells.score(summary.mean, digits)
    if test is not None and test.verdict == "better":  # bold by the primary metric alone
        text = rf"\textbf{{{text}}}"
    return text if summary.sd is None else rf"{text} $\pm$ {cells.score(summary.sd, digits)}"


def render(report: Report, width: int) -> str:
    """The whole report as text: words are wrapped at the width, tables are kept whole."""
    parts = [_answer(report, width)]
    if report.warnings:
        parts.append(_warnings(report, width))
    parts += [_table(table, width) for table in tables(report)]
    parts.append(_sources(report, width))
    return "\n\n".join(parts) + "\n"


def _answer(report: Report, width: int) -> str:
    parts, widest = [], max(5, *map(len, report.settings.metrics)) + 1
    for title, comparisons in by_title(report).items():
        lines = textwrap.wrap(title, width)
        for c in comparisons:
            head = f"  {c.metric:<{widest}}{c.verdict.upper() if c.primary else c.verdict:<14}"
            lines += _wrap(c.words, width, head, " " * len(head))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _warnings(report: Report, width: int) -> str:
    return "\n".join(
        ["Warnings", *(line for w in report.warnings for line in _wrap(w, width, "  ! ", "    "))]
    )


def _table(table: Table, width: int) -> str:
    found = _aligned(table, table.rows)
    excess = max(map(len, found)) - width
    if excess > 0:
        names = [cell for row in (table.header, *table.rows) for cell in row[: table.left]]
        longest = max(_SHORTEST_NAME, max(map(len, names)) - excess)
        cut = [
            [_cut(c, longest) if i < table.left else c for i, c in enumerate(row)]
            for row in table.rows
        ]
        found = _aligned(table, cut)
    lines = [table.title, *found]
    for note in table.note.splitlines():
        lines += _wrap(note, width, "  ", "    ")
    return "\n".join(lines)


def _aligned(table: Table, rows: list[list[str]]) -> list[str]:
    sides = ["left"] * table.left + ["right"] * (len(table.header) - table.left)
    # As a row, because tabulate makes the column of a header wider than the header.
    lines = [table.header, *rows]
    text = needed("tabulate").tabulate(
        lines, tablefmt="plain", colalign=sides, disable_numparse=True
    )
    return [f"  {line.rstrip()}" for line in text.splitlines()]


def _cut(name: str, longest: int) -> str:
    """A name that fits; begin and end are what tells it from others, so the middle goes."""
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[:half]}…{name[half + 1 - longest :]}"


def _sources(report: Report, width: int) -> str:
    lines = ["Signatures"]
    for test_set, signatures in report.signatures.items():
        for metric, signature in signatures.items():
            where = f"{test_set} " if len(report.signatures) > 1 else ""
            lines += _wrap(signature, width, f"  {where}{metric}: ", "    ")
    for corpus in report.test_sets:
        text = f"{corpus.path} ({corpus.sentences:,} sentences, SHA-256 {corpus.sha256[:12]})"
        lines += _wrap(text, width, f"  {corpus.name}: ", "    ")
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    lines += _wrap(versions, width, "  versions: ", "    ")
    return "\n".join(lines)


def _wrap(text: str, width: int, first: str, rest: str) -> list[str]:
    # Paths and signatures are copied from here: never broken at a hyphen.
    return textwrap.wrap(
        text, max(width, 40), initial_indent=first, subsequent_indent=rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
