"""``--task srl_tagging``: label the arguments of given predicates."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import FairseqTask, register_task
from omegaconf import MISSING
from torch import Tensor

from selfattn.errors import UserError
from selfattn_tasks.srl import Proposition, Sentence, read
from selfattn_tasks.srl.decode import decode
from selfattn_tasks.srl.formats.lines import Line, read_lines_file
from selfattn_tasks.srl.scorer import score
from selfattn_tasks.srl.tagger.state import KEY, TaggerState
from selfattn_tasks.srl.tags import DECODERS, proposition_of
from selfattn_tasks.words.embeddings import WordVectors, read_vectors
from selfattn_tasks.words.vocabulary import Vocabulary, differences, read_symbols

from ..criterions.bio_tagging import IGNORED, BIOTaggingCriterion
from ..data.propositions import Example, PropositionDataset

logger = logging.getLogger(__name__)
_COUNTS = ("correct", "excess", "missed", "perfect", "propositions")


@dataclass
class SRLTaggingConfig(FairseqDataclass):
    """Flags of the task."""

    data: str = field(
        default=MISSING, metadata={"help": "folder that scripts/prepare_srl.py wrote"}
    )
    max_length: int = field(
        default=256,
        metadata={"help": "leave longer training sentences out; all are kept elsewhere"},
    )
    eval_decoder: ChoiceEnum(DECODERS) = field(  # type: ignore[valid-type]
        default="argmax",
        metadata={
            "help": "decoder of the validation, and so of the choice of the best checkpoint; "
            "see scripts/predict_srl.py --help"
        },
    )
    keep_vectors: ChoiceEnum(("all", "seen")) = field(  # type: ignore[valid-type]
        default="all",
        metadata={
            "help": "which vectors of --word-embeddings a checkpoint holds beside those of "
            "training words: all, or those of words in the prepared files (seen: much smaller, "
            "but any other word is unknown for good)"
        },
    )


@register_task("srl_tagging", dataclass=SRLTaggingConfig)
class SRLTaggingTask(FairseqTask):
    """Semantic role labelling with given predicates, validated by the official CoNLL-2005 score.

    Validation logs ``f1``, ``precision``, ``recall`` and ``perfect_props`` in percent, summed over
    all processes before they are divided, so that ``--best-checkpoint-metric f1`` is the score of
    ``scripts/score_srl.py``. Every checkpoint holds the vocabulary and the sizes of the model:
    ``scripts/predict_srl.py`` needs nothing else.

    Args:
        cfg: the flags.
        vocabulary: words and labels.
    """

    # What --criterion policy_gradient wraps.
    supervised_criterion = "bio_tagging"

    def __init__(self, cfg: Any, vocabulary: Vocabulary) -> None:
        super().__init__(cfg)
        self.tagger = TaggerState(vocabulary)
        # While a model is built: the file of word vectors that it starts from.
        self.vectors: WordVectors | None = None

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "SRLTaggingTask":
        """fairseq's hook: read the dictionaries.

        Raises:
            UserError: if the folder is not a prepared one.
        """
        files = (Path(cfg.data, f"dict.{name}.txt") for name in ("word", "label"))
        return cls(cfg, Vocabulary(*map(read_symbols, files)))

    @property
    def vocabulary(self) -> Vocabulary:
        """Words and labels."""
        return self.tagger.vocabulary

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """fairseq's hook.

        Raises:
            UserError: for a criterion that does not know these batches.
        """
        criterion = super().build_criterion(cfg, from_checkpoint)
        if not isinstance(getattr(criterion, "supervised", criterion), BIOTaggingCriterion):
            name = getattr(cfg, "_name", type(criterion).__name__)
            raise UserError(
                f"--criterion {name} does not fit --task srl_tagging; give --criterion "
                "bio_tagging, or policy_gradient with --encoder-attention resa"
            )
        return criterion

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """fairseq's hook; reads ``--word-embeddings``, unless a checkpoint's weights follow.

        Raises:
            UserError: if the architecture is no tagger, or a flag of it is wrong.
        """
        arch = getattr(cfg, "arch", None)
        if not getattr(ARCH_MODEL_REGISTRY.get(arch), "is_tagger", False):
            raise UserError(
                f"--arch {arch} is no tagger; --task srl_tagging needs deepatt, deepatt_mtsa or "
                "another architecture of the model deepatt"
            )
        path = getattr(cfg, "word_embeddings", None)
        if path and not from_checkpoint:
            self.vectors = read_vectors(Path(path))
            self._keep(self.vectors, path)
        model = super().build_model(cfg, from_checkpoint)
        self.vectors = None
        self.tagger = TaggerState(self.vocabulary, model.tagger.config)
        return model

    def _keep(self, vectors: WordVectors, path: str) -> None:
        """Add the words whose vectors a checkpoint shall hold, and log the coverage."""
        words: Iterable[str] = vectors.words
        if str(self.cfg.keep_vectors) == "seen":
            files = (f for f in Path(self.cfg.data).glob("*.txt") if not f.name.startswith("dict."))
            met = {w for file in files for line in read_lines_file(file) for w in line.words}
            met |= {word.lower() for word in met}
            words = [word for word in vectors.words if word in met]
        known = self.vocabulary.words
        covered = sum(vectors.row(word) is not None for word in known)
        vocabulary = self.vocabulary.with_frozen(words)
        self.tagger = TaggerState(vocabulary, self.tagger.config)
        logger.info(
            "%s: %s vectors of width %d; %s of the %s training words (%.1f %%) have one; "
            "%s of other words are kept",
            path, f"{len(vectors.words):,}", vectors.width, f"{covered:,}", f"{len(known):,}",
            100 * covered / len(known), f"{len(vocabulary.frozen):,}",
        )  # fmt: skip

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> None:
        """fairseq's hook: read ``SPLIT.txt``, and ``SPLIT.conll`` for all but training.

        Raises:
            UserError: if the files are missing or do not belong together.
        """
        folder = Path(self.cfg.data)
        path = folder / f"{split}.txt"
        if not path.is_file():
            raise UserError(
                f"{path} does not exist: give a folder that scripts/prepare_srl.py wrote with "
                f"--{split}, or name the sets that there are (--train-subset, --valid-subset)"
            )
        lines = read_lines_file(path)
        if split == "train":
            examples = [self._example(line) for line in self._short_enough(lines)]
            self.datasets[split] = PropositionDataset(examples, shuffle=True)
            return
        gold = _gold(folder / f"{split}.conll", lines)
        examples = [self._example(*pair) for pair in zip(lines, gold, strict=True)]
        self.datasets[split] = PropositionDataset(examples, shuffle=False)

    def _short_enough(self, lines: list[Line]) -> list[Line]:
        longest = self.cfg.max_length
        kept = [line for line in lines if len(line.words) <= longest]
        if not kept:
            raise UserError(
                f"--max-length {longest} leaves none of the {len(lines)} training propositions; "
                "raise it"
            )
        if len(kept) < len(lines):
            logger.info(
                "left out %d propositions of more than %d words (--max-length)",
                len(lines) - len(kept), longest,
            )  # fmt: skip
        return kept

    def _example(
        self, line: Line, gold: tuple[tuple[str, ...], Proposition] | None = None
    ) -> Example:
        labels = [self.vocabulary.label(tag) for tag in line.tags]
        target = [IGNORED if label is None else label for label in labels]
        return Example(self.vocabulary.encode(line.words), line.predicate, target, gold)

    def valid_step(
        self, sample: dict[str, Any], model: Any, criterion: Any
    ) -> tuple[Any, Any, dict[str, Any]]:
        """fairseq's hook: the loss, and the counts of the official score."""
        scores: list[Tensor] = []
        hook = model.register_forward_hook(lambda *call: scores.append(call[-1]))
        try:
            loss, size, logged = super().valid_step(sample, model, criterion)
        finally:
            hook.remove()
        return loss, size, {**logged, **self._counts(scores[0], sample)}

    def _counts(self, scores: Tensor, sample: dict[str, Any]) -> dict[str, int]:
        """Counts of the official score for a batch of propositions with their gold spans."""
        decoder = str(self.cfg.eval_decoder)
        tags = decode(
            torch.log_softmax(scores.float(), -1),
            sample["net_input"]["padding_mask"],
            self.vocabulary.labels,
            decoder,
        )
        gold, predicted = [], []
        for row, (words, proposition) in zip(tags, sample["gold"], strict=True):
            found = proposition_of(row, proposition.predicate, proposition.lemma, decoder=decoder)
            gold.append(Sentence(words, (proposition,)))
            predicted.append(Sentence(words, (found,)))
        result = score(gold, predicted)
        counts = (getattr(result.overall, name) for name in _COUNTS[:3])
        numbers = (*counts, result.perfect_props, result.propositions)
        return {f"_srl_{name}": n for name, n in zip(_COUNTS, numbers, strict=True)}

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
        """fairseq's hook: log the criterion's figures and, in validation, the official score."""
        super().reduce_metrics(logging_outputs, criterion)
        if not any("_srl_correct" in log for log in logging_outputs):
            return
        for name in _COUNTS:
            key = f"_srl_{name}"
            metrics.log_scalar(key, float(sum(log.get(key, 0) for log in logging_outputs)))
        for name, derive in _DERIVED.items():
            metrics.log_derived(name, derive)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint stores of the task."""
        return {**super().state_dict(), KEY: self.tagger.dump()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a checkpoint's state.

        Raises:
            UserError: if it was trained with other words or labels than this folder has.
        """
        state = dict(state_dict)
        stored = state.pop(KEY, None)
        super().load_state_dict(state)
        if stored is None:
            return
        vocabulary = Vocabulary.from_state(stored["vocabulary"])
        ours = self.vocabulary if self.tagger.config else self.vocabulary.with_frozen(())
        theirs = vocabulary if self.tagger.config else vocabulary.with_frozen(())
        if different := differences(ours, theirs):
            raise UserError(
                f"{self.cfg.data} and the checkpoint have other vocabularies: {different}; "
                "prepare the data again from the files that it was trained on, or train anew in "
                "another --save-dir"
            )
        self.tagger = TaggerState(vocabulary, self.tagger.config)


def _gold(path: Path, lines: list[Line]) -> list[tuple[tuple[str, ...], Proposition]]:
    """Words and propositions of the gold file, which the lines were made from."""
    if not path.is_file():
        raise UserError(f"{path} does not exist; prepare the folder with scripts/prepare_srl.py")
    gold = [(s.words, p) for s in read(path) for p in s.propositions]
    if [(words, p.predicate) for words, p in gold] != [(e.words, e.predicate) for e in lines]:
        raise UserError(
            f"{path} and {path.with_suffix('.txt').name} hold other propositions; prepare the "
            "folder again with scripts/prepare_srl.py"
        )
    return gold


def _ratio(right: str, *of: str) -> Callable[[Any], float]:
    """A figure in percent from the sums over a validation."""

    def derive(meters: Any) -> float:
        total = sum(meters[f"_srl_{name}"].sum for name in of)
        return round(100 * meters[f"_srl_{right}"].sum / total, 2) if total else 0.0

    return derive


def _f1(meters: Any) -> float:
    """2 PR / (P + R), which is 2 correct / (2 correct + excess + missed)."""
    correct, excess, missed = (meters[f"_srl_{name}"].sum for name in _COUNTS[:3])
    total = 2 * correct + excess + missed
    return round(200 * correct / total, 2) if total else 0.0


_DERIVED: dict[str, Callable[[Any], float]] = {
    "precision": _ratio("correct", "correct", "excess"),
    "recall": _ratio("correct", "correct", "missed"),
    "f1": _f1,
    "perfect_props": _ratio("perfect", "propositions"),
}
