"""A report as files: CSV, Markdown, LaTeX."""

from __future__ import annotations

from collections.abc import Iterator

from selfattn_tasks.files import csv_text

from ..results import Comparison, Report, Summary
from ..run_level import Interval
from . import cells
from .sections import by_title, tables

COLUMNS = (
    "test_set",
    "metric",
    "system",
    "baseline",
    "seed",
    "file",
    "sha256",
    "quantity",
    "value",
)
_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$",
})  # fmt: skip
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
        "hedges_g": c.effect and c.effect.g,
        **_limits("hedges_g", c.effect and c.effect.interval),
        "detectable": plan and plan.detectable,
        "seeds_relevant": plan and plan.seeds_relevant,
        "seeds_cautious": plan and plan.seeds_cautious,
        "bootstrap_p": sentence.bootstrap_p,
        **_limits("bootstrap", sentence.interval),
        "randomisation_p": sentence.randomisation_p,
        "mcnemar_p": sentence.mcnemar_p,
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
        rule = ["---"] * table.left + ["---:"] * (len(table.header) - table.left)
        lines += [f"**{table.title}**", ""]
        lines += [_markdown_row(row) for row in (table.header, rule, *table.rows)]
        lines += ["", *(f"- {note}" for note in table.note.splitlines())] if table.note else []
        lines.append("")
    lines += ["**Where this comes from**", "", f"`{report.command}`", ""]
    lines += [
        f"- {test_set}, {metric}: `{signature}`"
        for test_set, signatures in report.signatures.items()
        for metric, signature in signatures.items()
    ]
    lines.append(f"- {', '.join(f'{n} {v}' for n, v in report.versions.items())}")
    lines += ["", "| file | SHA-256 |", "|---|---|"]
    lines += [f"| `{t.path}` | `{t.sha256}` |" for t in report.test_sets]
    lines += [f"| `{r.path}` | `{r.sha256}` |" for r in report.runs]
    return "\n".join(lines) + "\n"


def _markdown_row(row: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"


def to_latex(report: Report) -> str:
    """A table for a paper (package booktabs): a row for each system, hashes as comments."""
    metrics = report.settings.metrics
    several = len(report.test_sets) > 1
    lead = ["test set"] * several + ["system", "runs"]
    lines = [f"% {report.command}", r"% needs \usepackage{booktabs}"]
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
        + report.baseline.translate(_LATEX)
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
    row = [cell.translate(_LATEX) for cell in row]
    for metric in report.settings.metrics:
        digits = report.settings.digits(metric)
        row.append(_latex_score(found[metric], tests.get(metric), digits))
        p = cells.probability(tests[metric].p_holm) if metric in tests else "-"
        row.append(p.translate(_LATEX) if p != "-" else "--")
    return " & ".join(row) + r" \\"


def _latex_score(summary: Summary, test: Comparison | None, digits: int) -> str:
    text = cells.score(summary.mean, digits)
    if test is not None and test.verdict == "better":  # bold by the primary metric alone
        text = rf"\textbf{{{text}}}"
    return text if summary.sd is None else rf"{text} $\pm$ {cells.score(summary.sd, digits)}"
