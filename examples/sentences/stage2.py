#!/usr/bin/env python
"""Tune and test the encoders on one corpus, as protocol.md says; the same command resumes it.

  examples/sentences/prepare.sh cr CR_FOLDER glove.6B.100d.txt
  python examples/sentences/stage2.py cr                # tune, choose, test, compare
  python examples/sentences/stage2.py cr --only tune    # a part of it: tune or test
  python examples/sentences/stage2.py cr --print test   # the grid file, and nothing else

A grid file is written into examples/sentences/runs/CORPUS, beside what `run_seeds.py` makes of it.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from selfattn_tasks import cli

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"
SYSTEMS = ("multihead", "mtsa", "biblosa", "lstm", "none")
ARCH = {
    "multihead-masks": "multihead --multihead-masks forward_backward",  # as MTSA has them
    "multihead-elu": "multihead --activation-fn elu",
    "mtsa-relu": "mtsa --activation-fn relu",  # for inference its default is elu
    "biblosa-relu": "biblosa --activation-fn relu",
}
OTHERS = (*ARCH, "fast_disa", "disa", "resa", "gru", "sru", "multi_cnn", "hrchy_cnn", "vanilla")
SETTINGS = [(lr, dropout) for lr in ("0.001", "0.0005") for dropout in ("0.3", "0.5")]
COMMON = (
    "--hidden-size 100 --head-hidden-size 100 --optimizer adam --maximize-best-checkpoint-metric "
    "--no-epoch-checkpoints --num-workers 0 --log-interval 50"
)


@dataclass(frozen=True)
class Corpus:
    """What differs between corpora.

    Args:
        batch: examples.
        epochs: at most.
        patience: epochs without a better validation, after which training stops.
        l2: as published.
        metric: of the validation.
        tests: further test sets of the folder, name to part.
        folds: the corpus is cut into folds: one seed, half of the settings, and the tuning's runs
            are those that are compared.
        tuned: another corpus, whose settings it takes instead of tuning.
        more: further flags of all systems.
    """

    batch: int
    epochs: int
    patience: int
    l2: str = "1e-4"
    metric: str = "accuracy"
    tests: tuple[tuple[str, str], ...] = ()
    folds: bool = False
    tuned: str = ""
    more: str = ""


CORPORA = {
    "sick": Corpus(32, 100, 15, metric="pearson"),  # these two for the contexts of OTHERS
    "trec": Corpus(32, 100, 15),
    "sst5": Corpus(64, 10, 3, tuned="sst2"),
    "sst2": Corpus(64, 10, 3),
    "cr": Corpus(32, 30, 5, folds=True),
    "mpqa": Corpus(32, 30, 5, folds=True),
    "mr": Corpus(32, 30, 5, folds=True),
    "snli": Corpus(64, 20, 4, "5e-5", tests=(("counterfactual", "test1"),)),
    "multinli": Corpus(64, 20, 4, "5e-5", more=" --activation-fn relu"),
    "squad": Corpus(32, 20, 4),
}


def grid(name: str, step: str, systems: dict[str, tuple[str, str, str]]) -> dict[str, object]:
    """A grid file: of each system its context, learning rate and dropout."""
    corpus = CORPORA[name]
    data = f"data-bin/{name}"
    content: dict[str, object] = {
        "task": "sentences",
        "data": data,
        "output": str((HERE / "runs" / name / step).relative_to(HERE.parents[1])),
        "seeds": [1] if corpus.folds else [1000] if step == "tune" else [1, 2, 3, 4, 5],
        "cpus_per_run": 1,
        "common": f"{COMMON} --l2 {corpus.l2} --batch-size {corpus.batch} --max-epoch "
        f"{corpus.epochs} --patience {corpus.patience} --best-checkpoint-metric {corpus.metric}"
        + corpus.more,
        "systems": {
            system: f"--arch sentence_encoder_{ARCH.get(c, c)} --lr {lr} --dropout {dropout}"
            for system, (c, lr, dropout) in systems.items()
        },
    }
    if step == "tune" and not corpus.folds:
        content["gold"] = {"valid": f"{data}/valid.jsonl"}
    elif corpus.tests:
        parts = {"test": "test", **dict(corpus.tests)}
        content["gold"] = {test: f"{data}/{part}.jsonl" for test, part in parts.items()}
    return content


def tuning(name: str, contexts: list[str]) -> dict[str, tuple[str, str, str]]:
    """All settings of all systems; of folds those with the first learning rate."""
    settings = SETTINGS[:2] if CORPORA[name].folds else SETTINGS
    return {f"{c}-lr{lr}-d{d}": (c, lr, d) for c in contexts for lr, d in settings}


def chosen(name: str, contexts: list[str]) -> dict[str, tuple[str, str, str]]:
    """Of each system the setting with the best validation score; of equal ones the first."""
    name = CORPORA[name].tuned or name
    seed = 1 if CORPORA[name].folds else 1000
    best: dict[str, tuple[float, str, tuple[str, str, str]]] = {}
    for setting, system in tuning(name, contexts).items():
        record = HERE / "runs" / name / "tune" / f"{setting}-{seed}" / "run.json"
        if not record.is_file():
            sys.exit(f"stage2.py: {record} is missing; run `stage2.py {name} --only tune` first")
        value = json.loads(record.read_text())["best_valid"]["value"]
        print(f"{setting:24} {value:.4g} on validation data", file=sys.stderr)
        if system[0] not in best or value > best[system[0]][0]:
            best[system[0]] = (value, setting, system)
    if CORPORA[name].folds:
        return {setting: system for _, setting, system in best.values()}
    return {context: system for context, (_, _, system) in best.items()}


def work(name: str, step: str, systems: dict[str, tuple[str, str, str]]) -> None:
    """Write a grid file and work it off; systems that it had stay in it."""
    file = HERE / "runs" / name / f"{step}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = grid(name, step, systems)
    if file.is_file():
        content["systems"] = json.loads(file.read_text())["systems"] | content["systems"]
    file.write_text(json.dumps(content, indent=2) + "\n")  # JSON is YAML
    run("run_seeds.py", str(file))


def compare(name: str, systems: dict[str, tuple[str, str, str]]) -> None:
    """All systems against the first one, and the trivial one beside them."""
    folds = CORPORA[name].folds
    runs = HERE / "runs" / name / ("tune" if folds else "test")
    gold = f"data-bin/{name}/{'all' if folds else 'test'}.jsonl"
    trivial = str(runs.parent / "trivial.tsv")
    run("predict_sentences.py", "--baseline", f"data-bin/{name}", "--input", gold,
        "--output", trivial)  # fmt: skip
    print("\nWithout training:")
    run("score_sentences.py", gold, trivial)
    flags = [f"{system[0]}={runs}/{setting}-[0-9]*/test.tsv" for setting, system in systems.items()]
    words = ["--ref", gold, "--baseline", flags[0]]
    for flag in flags[1:]:
        words += ["--system", flag]
    run("compare_bleu.py", *words)


def run(script: str, *words: str) -> None:
    """A command of the project, which ends with this one; or its exit code."""
    process = subprocess.Popen([sys.executable, str(SCRIPTS / script), *words])
    try:
        code = process.wait()
    except BaseException as error:
        if isinstance(error, SystemExit):  # SIGTERM; Ctrl-C reaches both
            process.terminate()
        process.wait()  # training needs some seconds to end
        raise
    if code:
        sys.exit(code)


def main() -> None:
    """Do what is asked for."""
    parser = cli.script_parser(__doc__)
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("--only", choices=("tune", "test"), help="default: both")
    parser.add_argument("--print", choices=("tune", "test"), help="print the grid file")
    parser.add_argument(
        "--contexts", nargs="+", choices=(*SYSTEMS, *OTHERS), default=list(SYSTEMS),
        help="the first one is what the others are compared with (default: the protocol's five)",
    )  # fmt: skip
    args = parser.parse_args()
    name, contexts = args.corpus, args.contexts
    if args.print:
        systems = tuning(name, contexts) if args.print == "tune" else chosen(name, contexts)
        print(json.dumps(grid(name, args.print, systems), indent=2))
        return
    tuned = CORPORA[name].tuned
    if args.only == "tune" and tuned:
        parser.error(f"--only tune: {name} takes the settings that the tuning of {tuned} chose")
    if args.only != "test" and not tuned:
        work(name, "tune", tuning(name, contexts))
    if args.only != "tune":
        systems = chosen(name, contexts)
        if not CORPORA[name].folds:
            work(name, "test", systems)
        compare(name, systems)


if __name__ == "__main__":
    cli.run(main)
