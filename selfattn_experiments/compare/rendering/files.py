"""A report as files: CSV, Markdown, LaTeX."""

from __future__ import annotations

from collections.abc import Iterator

from selfattn.files import csv_text

from ..results import Comparison, Report, Summary
from . import cells
from .sections import tables, title_of

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
    """One number a line, so that any program can pick what it needs; columns are COLUMNS."""
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
        low, high = s.interval or (None, None)
        for name, number in (("runs", s.runs), ("mean", s.mean), ("sd", s.sd)):
            yield [*head, name, number]
        yield [*head, "mean_low", low]
        yield [*head, "mean_high", high]
    for c in report.comparisons:
        head = [c.test_set, c.metric, c.system, c.baseline, None, None, None]
        for name, found in quantities(c).items():
            yield [*head, name, found]


def quantities(c: Comparison) -> dict[str, Cell]:
    """Name to number of all that was found out about a difference; None where there is none."""
    welch_low, welch_high = c.welch.interval if c.welch else (None, None)
    wide_low, wide_high = c.simultaneous or (None, None)
    paired_low, paired_high = c.paired.interval if c.paired else (None, None)
    both_low, both_high = c.both_levels.interval if c.both_levels else (None, None)
    g_low, g_high = c.effect.interval if c.effect else (None, None)
    plan, sentence = c.planning, c.sentence
    return {
        "verdict": c.verdict,
        "difference": c.difference,
        "welch_p": c.welch.p if c.welch else None,
        "welch_low": welch_low,
        "welch_high": welch_high,
        "holm_p": c.p_holm,
        "simultaneous_low": wide_low,
        "simultaneous_high": wide_high,
        "equivalence_p": c.equivalence,
        "equivalence_holm_p": c.equivalence_holm,
        "paired_p": c.paired.p if c.paired else None,
        "paired_low": paired_low,
        "paired_high": paired_high,
        "pairs": c.pairs,
        "permutation_p": c.permutation.p,
        "permutation_smallest_p": c.permutation.smallest,
        "order_epsilon": c.order.violation if c.order else None,
        "order_epsilon_limit": c.order.limit if c.order else None,
        "both_levels_p": c.both_levels.p if c.both_levels else None,
        "both_levels_low": both_low,
        "both_levels_high": both_high,
        "hedges_g": c.effect.g if c.effect else None,
        "hedges_g_low": g_low,
        "hedges_g_high": g_high,
        "detectable": plan.detectable if plan else None,
        "seeds_relevant": plan.seeds_relevant if plan else None,
        "seeds_cautious": plan.seeds_cautious if plan else None,
        "bootstrap_p": sentence.bootstrap_p,
        "bootstrap_low": sentence.interval[0],
        "bootstrap_high": sentence.interval[1],
        "randomisation_p": sentence.randomisation_p,
        "mcnemar_p": sentence.mcnemar_p,
        "sd_test_set": sentence.test_set_sd,
        "sd_seed": sentence.seed_sd,
        "seed_share": sentence.seed_share,
    }


def to_markdown(report: Report) -> str:
    """Verdicts, warnings, tables, signatures, and all files with their hashes."""
    lines: list[str] = []
    title = ""
    for c in report.comparisons:
        if (found := title_of(report, c)) != title:
            title = found
            lines += ["", f"**{title}**", ""] if lines else [f"**{title}**", ""]
        lines.append(f"- {c.metric}: **{c.verdict}**, {c.words}")
    if report.warnings:
        lines += ["", "Warnings:", "", *(f"- {warning}" for warning in report.warnings)]
    for table in tables(report):
        rule = ["---"] * table.left + ["---:"] * (len(table.header) - table.left)
        lines += ["", f"**{table.title}**", ""]
        lines += [_markdown_row(row) for row in (table.header, rule, *table.rows)]
        lines += ["", *(f"- {note}" for note in table.note.splitlines())] if table.note else []
    lines += ["", "**Where this comes from**", "", f"`{report.command}`", ""]
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
    found = {s.metric: s for s in report.summaries if (s.test_set, s.system) == (test_set, system)}
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
