"""Validation BLEU of every run of a grid, whether its systems converged, and BLEU of Moses tokens.

  python examples/multi30k_en_de/convergence.py runs/multi30k-evidence \\
      --reference data-bin/multi30k-10k/raw/test.de

By protocol.md a system has not converged if its mean rises by more than 0.3 in the last 1,000
updates; the interval over its runs says how well that is known. The last table is scored as Wu et
al. (2021) did: lower-cased, sacremoses' tokens, no smoothing.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn.errors import UserError, needed
from selfattn_experiments.compare.rendering.cells import markdown, signed, span
from selfattn_experiments.compare.run_level import mean_interval
from selfattn_experiments.report import read_curves
from selfattn_tasks.cli import run, script_parser
from selfattn_tasks.files import read_json
from selfattn_tasks.text import read_lines
from selfattn_tasks.translation.outputs import read_hypotheses

LAST, RISE = 1000, 0.3


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("runs", type=Path, help="the output folder of `selfattn runs`")
    parser.add_argument("--reference", type=Path, help="of test.hyp; none: no BLEU of Moses tokens")
    args = parser.parse_args()
    systems: dict[str, list[Path]] = {}
    records = ((read_json(p, "system", "seed"), p.parent) for p in args.runs.glob("*/run.json"))
    for system, _, folder in sorted((r["system"], r["seed"], folder) for r, folder in records if r):
        systems.setdefault(system, []).append(folder)
    if not systems:
        raise UserError(f"{args.runs} has no finished runs; selfattn runs makes them")
    print(validation(systems))
    if args.reference is not None:
        print(f"\n{moses(systems, args.reference)}")


def validation(systems: dict[str, list[Path]]) -> str:
    """A row for each run, and for each system its mean and its rise at the end."""
    curves = {
        run: dict(read_curves(run / "train.log").valid.get("bleu", []))
        for runs in systems.values()
        for run in runs
    }
    updates = sorted(set().union(*curves.values()))
    rows = []
    for system, runs in systems.items():
        shared = set(updates).intersection(*(curves[run] for run in runs))
        if not shared or max(shared) - LAST not in shared:
            raise UserError(
                f"the runs of {system} were not validated {LAST:,} updates before their last one"
            )
        means = {u: sum(curves[run][u] for run in runs) / len(runs) for u in shared}
        rises = [curves[run][max(shared)] - curves[run][max(shared) - LAST] for run in runs]
        rise, interval = sum(rises) / len(rises), mean_interval(rises)
        known = f" ({span(interval)})" if interval else ""
        more = round(rise, 6) > RISE  # 37.27 - 36.97 is a little above 0.3 in binary
        words = f"{signed(rise, 2)}{known}: {'not ' * more}converged"
        lines = [(each.name, curves[each], "") for each in runs] + [(f"**{system}**", means, words)]
        for name, curve, end in lines:
            rows.append([name, *(f"{curve[u]:.2f}" if u in curve else "" for u in updates), end])
    names = [f"{u:,}" for u in updates]
    return "\n".join(markdown(["run", *names, f"last {LAST:,} updates"], rows, left=1))


def moses(systems: dict[str, list[Path]], reference: Path) -> str:
    """Mean and scores of each system, as Wu et al. scored."""
    metrics, tokenizer = needed("sacrebleu.metrics"), needed("sacremoses").MosesTokenizer("de")
    bleu = metrics.BLEU(tokenize="none", smooth_method="none", force=True)

    def tokens(lines: list[str]) -> list[str]:
        return [tokenizer.tokenize(line.lower(), return_str=True) for line in lines]

    lines = read_lines(reference)
    gold, rows = [tokens(lines)], []
    for system, runs in systems.items():
        found = (read_hypotheses(run / "test.hyp", lines, reference) for run in runs)
        scores = [bleu.corpus_score(tokens(each), gold).score for each in found]
        rows.append([system, *(f"{x:.2f}" for x in (sum(scores) / len(scores), *scores))])
    width = max(map(len, rows))
    rows = [row + [""] * (width - len(row)) for row in rows]
    heads = ["Moses tokens, lower-cased", "mean", *(f"run {i}" for i in range(1, width - 1))]
    return "\n".join(markdown(heads, rows, left=1))


if __name__ == "__main__":
    run(main)
