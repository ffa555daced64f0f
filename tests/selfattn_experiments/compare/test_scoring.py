"""Counts in blocks and from beside the hypotheses, against counts of all sentences at once."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sacrebleu")
pytest.importorskip("scipy")

from selfattn.errors import UserError
from selfattn_experiments.compare.results import Settings
from selfattn_experiments.compare.runs import Found
from selfattn_experiments.compare.scoring import score_runs
from selfattn_tasks.translation.metrics import TranslationMetric, translation_metrics
from tests.selfattn_tasks.test_metrics import corpus


@pytest.fixture
def files(tmp_path):
    """Two systems of two runs."""
    references, _ = corpus(0)
    found = {}
    for system in "ab":
        for seed in (1, 2):
            path = tmp_path / f"{system}{seed}.out"
            lines = corpus(0, changed=0.1 * seed + 0.03 * (system == "a"))[1]
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
            found.setdefault(system, []).append(Found(path, str(seed), None))
    (tmp_path / "ref.de").write_text("".join(f"{line}\n" for line in references), "utf-8")
    return references, found


@pytest.fixture
def counted(monkeypatch):
    """How many sentences of how many runs sacreBLEU counted, by metric."""
    calls = []
    count = TranslationMetric.counts

    def watched(self, gold, outputs):
        calls.append((self.name, len(gold), len(outputs)))
        return count(self, gold, outputs)

    monkeypatch.setattr(TranslationMetric, "counts", watched)
    return calls


def score(files, metrics=("BLEU", "chrF", "TER"), keep=True, **settings):
    references, found = files
    path = found["a"][0].path.with_name("ref.de")
    chosen = Settings("translation", metrics, **settings)
    return score_runs(chosen, found, "test", path, references, lambda text: None, keep)


def test_blocks_give_what_sacrebleu_gives_at_once(files, monkeypatch, counted):
    monkeypatch.setattr("selfattn_experiments.compare.scoring._BLOCK", 7)
    scored = score(files)
    assert counted[:6] == [("BLEU", 7, 4)] * 5 + [("BLEU", 5, 4)]
    references, found = files
    paths = [file.path for group in found.values() for file in group]
    for metric in translation_metrics(scored.counts, lowercase=False, tokenize="13a"):
        table = scored.counts[metric.name]
        assert table.shape[:2] == (4, 40) and table.dtype == np.uint8
        for run, path, counts in zip(scored.runs, paths, table, strict=True):
            lines = path.read_text("utf-8").splitlines()
            expected = metric.engine.corpus_score(lines, [references])
            assert run.scores[metric.name] == pytest.approx(expected.score, rel=1e-13)
            assert (counts == metric.counts(references, [lines])[0]).all()


def test_a_second_comparison_counts_nothing(files, counted):
    first = score(files)
    assert len(counted) == 3
    second = score(files)
    assert len(counted) == 3
    assert first.runs == second.runs
    assert all((first.counts[name] == second.counts[name]).all() for name in first.counts)
    folder = files[1]["a"][0].path.parent
    kept = sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
    assert kept[:3] == [".a1.out.bleu.counts", ".a1.out.chrf.counts", ".a1.out.ter.counts"]
    assert len(kept) == 12


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
        lambda content: b"\x00" * len(content),
    ],
)
def test_damaged_counts_are_counted_anew(files, counted, spoil):
    expected = score(files, ["BLEU"]).runs
    kept = files[1]["a"][0].path.with_name(".a1.out.bleu.counts")
    good = kept.read_bytes()
    kept.write_bytes(spoil(good))
    counted.clear()
    assert score(files, ["BLEU"]).runs == expected
    assert counted == [("BLEU", 40, 1)]
    assert kept.read_bytes() == good


def test_stale_counts_are_counted_anew(files, counted, monkeypatch):
    references, found = files
    score(files, ["BLEU"])

    def runs_counted(**settings):
        counted.clear()
        score((references, found), ["BLEU"], **settings)
        return [runs for _, _, runs in counted]

    assert runs_counted(lowercase=True) == [4]
    assert runs_counted() == [4]
    found["b"][1].path.write_text("Ein Boot.\n" * 40, "utf-8")
    assert runs_counted() == [1]
    references[0] += " neu"
    assert runs_counted() == [4]
    monkeypatch.setattr("sacrebleu.metrics.base.__version__", "9.9", raising=True)
    assert runs_counted() == [4]
    # The counts of another run under this name.
    one, two = (found["a"][i].path.with_name(f".a{i + 1}.out.bleu.counts") for i in (0, 1))
    one.write_bytes(two.read_bytes())
    assert runs_counted() == [1]


def test_without_the_cache_nothing_is_left_or_used(files, counted):
    expected = score(files, keep=False).runs
    folder = files[1]["a"][0].path.parent
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    score(files)
    counted.clear()
    assert score(files, keep=False).runs == expected
    assert len(counted) == 3


def test_a_folder_that_cannot_be_written_to(files, counted):
    """A folder stands where the counts would; the superuser may write into any folder."""
    for group in files[1].values():
        for file in group:
            file.path.with_name(f".{file.path.name}.bleu.counts").mkdir()
    before = sorted(files[1]["a"][0].path.parent.iterdir())
    assert score(files, ["BLEU"]).runs == score(files, ["BLEU"], keep=False).runs
    assert sorted(files[1]["a"][0].path.parent.iterdir()) == before


def test_a_run_of_another_task_is_refused(files):
    _, found = files
    found["b"][1] = replace(found["b"][1], record={"training": {"task": "srl"}})
    with pytest.raises(UserError, match="b2.out is of a run of the task srl, but --ref is read as"):
        score(files)


def test_runs_with_one_output_are_counted_once(files, counted):
    _, found = files
    found["b"] = found["a"]
    scored = score(files, ["BLEU"])
    assert counted == [("BLEU", 40, 2)]
    assert (scored.counts["BLEU"][:2] == scored.counts["BLEU"][2:]).all()
