"""``--task sentences``: classes, scores or a choice of sentences."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Optional

import torch
import torch.distributed as dist
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import FairseqTask, register_task
from omegaconf import MISSING

from selfattn.errors import UserError
from selfattn.models.relatedness_head import expected_score
from selfattn_tasks.sentences.folder import VECTORS, Folder
from selfattn_tasks.sentences.metrics import PEARSON, SPEARMAN, figures, ranked
from selfattn_tasks.sentences.model.state import KEY, SentenceState
from selfattn_tasks.sentences.predictions import DIGITS
from selfattn_tasks.sentences.record import LOWEST, Example, Kind
from selfattn_tasks.words.embeddings import WordVectors, read_vectors
from selfattn_tasks.words.vocabulary import Vocabulary, differences

from .._flags import flag
from ..compat.flags import criterion_of
from ..criterions.sentences import UNSEEN
from ..data.sentences import Encoded, SentenceDataset
from ..modules.outputs import outputs_of
from ._shared import generate_nothing, is_training, short_enough, with_vectors

logger = logging.getLogger(__name__)
_VALIDATION = "_validation"
# A correlation with a constant. fairseq compares with the best score so far, and nothing is better
# than a NaN; this is the worst that a correlation can be.
_UNDEFINED = -1.0


@dataclass
class SentencesConfig(FairseqDataclass):
    """Flags of the task."""

    data: str = flag(MISSING, "folder that `selfattn prepare sentences` wrote")
    fold: Optional[int] = flag(  # noqa: UP045 - fairseq reads types as text
        None, "the fold to test on, counted from 0; for data prepared with --folds"
    )
    max_length: Optional[int] = flag(  # noqa: UP045
        None,
        "leave training examples with a longer sentence out (published for SNLI: the "
        "longest 3 percent); all are kept elsewhere",
    )


@register_task("sentences", dataclass=SentencesConfig)
class SentencesTask(FairseqTask):
    """Sentence classification, inference, relatedness and selection, as the folder says.

    Validation logs ``accuracy`` in percent, or ``pearson``, ``spearman`` and ``mse`` over the whole
    set, gathered from all processes: they are what ``selfattn score sentences`` says. A
    correlation that is undefined, as with a constant prediction, counts as -1, the worst. Every
    checkpoint holds words, labels and sizes: ``selfattn predict sentences`` needs nothing else.
    """

    # For messages of plugin/compat: what makes the data folder.
    prepared_by = "selfattn prepare sentences"
    build_generator = generate_nothing

    def __init__(self, cfg: Any, folder: Folder) -> None:
        super().__init__(cfg)
        self.folder = folder
        vocabulary = Vocabulary(folder.words(cfg.fold), folder.labels)
        self.network_state = SentenceState(vocabulary, {**folder.meta, "fold": cfg.fold})
        # While a model is built: the vectors that its words start from.
        self.vectors: WordVectors | None = None
        # Predictions of the present validation, by set and number of the example.
        self._scores: dict[str, dict[int, tuple[float, float]]] = {}

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "SentencesTask":
        """fairseq's hook: read what the folder says about itself, and the words.

        Raises:
            UserError: if the folder is not a prepared one, or has no such fold.
        """
        return cls(cfg, Folder(cfg.data))

    @property
    def kind(self) -> Kind:
        """What is asked of the sentences."""
        return self.folder.kind

    @property
    def supervised_criterion(self) -> str:
        """What ``--criterion policy_gradient`` wraps."""
        return criterion_of(self.kind)

    @property
    def sentence_lengths(self) -> tuple[float, float] | None:
        """Mean and standard deviation of a training sentence's words; of trees, whole sentences.

        What ``--biblosa-block-length auto`` asks for. None with ``--max-length``: the sentences
        that remain must be counted.
        """
        return self.folder.lengths if self.cfg.max_length is None else None

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """fairseq's hook.

        Raises:
            UserError: for a criterion that does not fit the data.
        """
        criterion = super().build_criterion(cfg, from_checkpoint)
        wanted = CRITERION_REGISTRY[self.supervised_criterion]
        if type(getattr(criterion, "supervised", criterion)) is not wanted:
            name = getattr(cfg, "_name", type(criterion).__name__)
            raise UserError(
                f"--criterion {name} does not fit {self.cfg.data}, whose task is {self.kind}; give "
                f"--criterion {self.supervised_criterion}, or policy_gradient with --context resa"
            )
        return criterion

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """fairseq's hook; reads word vectors, unless a checkpoint's weights follow.

        Raises:
            UserError: if the architecture is no sentence encoder, or a flag of it is wrong.
        """
        arch = getattr(cfg, "arch", None)
        if not getattr(ARCH_MODEL_REGISTRY.get(arch), "encodes_sentences", False):
            raise UserError(
                f"--arch {arch} encodes no sentences; --task sentences needs sentence_encoder, "
                "sentence_encoder_mtsa or another architecture of that model"
            )
        if not from_checkpoint:
            self._read_vectors(getattr(cfg, "word_embeddings", None))
        model = super().build_model(cfg, from_checkpoint)
        self.vectors = None
        self.network_state = replace(self.network_state, config=model.network.config)
        return model

    def _read_vectors(self, path: str | None) -> None:
        """Take those of ``--word-embeddings``, or else the folder's; log the coverage."""
        self.vectors = vectors = read_vectors(Path(path)) if path else self.folder.vectors()
        if vectors is None:
            logger.info("no word vectors: all words start from random ones")
            return
        where = path or self.folder.path / VECTORS
        vocabulary = with_vectors(self.network_state.vocabulary, vectors, where)
        self.network_state = replace(self.network_state, vocabulary=vocabulary)

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> None:
        """fairseq's hook: read a part of the folder.

        Raises:
            UserError: if there is no such part, it is broken, or a label of training is unknown.
        """
        examples = self.folder.examples(split, self.cfg.fold)
        if not examples:
            raise UserError(f"{self.folder.path} has no example in its set {split}")
        training = is_training(split, kwargs)
        if training and self.cfg.max_length is not None:
            longest = self.cfg.max_length
            examples = short_enough(
                examples, lambda e: max(map(len, e.sentences)), longest, "examples"
            )
        # --fp16 and --bf16 round what fairseq finds in float32.
        dtype = torch.double if self.kind.target == "score" else torch.long
        encoded = self._encoded(examples, split, training)
        self.datasets[split] = SentenceDataset(encoded, split, dtype, shuffle=training)

    def _encoded(
        self, examples: Sequence[Example], split: str, training: bool
    ) -> Iterator[Encoded]:
        """Row numbers, and targets as numbers."""
        vocabulary = self.network_state.vocabulary
        words = list({word for e in examples for sentence in e.sentences for word in sentence})
        rows = dict(zip(words, vocabulary.encode(words), strict=True))
        unseen = 0
        for example in examples:
            target = example.target
            if isinstance(target, str):
                number = vocabulary.label(target)
                unseen += number is None
                target = UNSEEN if number is None else number
            assert target is not None  # Folder gives none
            yield [[rows[word] for word in sentence] for sentence in example.sentences], target
        if unseen and training:
            raise UserError(
                f"{unseen} training examples of {self.cfg.data} have a label that its meta.json "
                f"lacks; prepare the folder again with `{self.prepared_by}`"
            )
        if unseen:
            logger.warning(
                "%s: %d of %d examples have a label that training does not know: all are wrong",
                split, unseen, len(examples),
            )  # fmt: skip

    def begin_valid_epoch(self, epoch: int, model: Any) -> None:
        """fairseq's hook: forget the predictions of the validation before."""
        self._scores = {}

    def valid_step(
        self, sample: dict[str, Any], model: Any, criterion: Any
    ) -> tuple[Any, Any, dict[str, Any]]:
        """fairseq's hook: the loss, and the predicted scores of all processes."""
        if self.kind is not Kind.RELATEDNESS:
            return super().valid_step(sample, model, criterion)
        with outputs_of(model) as logits:
            loss, size, logged = super().valid_step(sample, model, criterion)
        found = expected_score(torch.softmax(logits[0].float(), -1), LOWEST)
        shown = [round(score, DIGITS) for score in found.tolist()]  # equal in a file, equal here
        pairs = zip(sample["target"].tolist(), shown, strict=True)
        mine = (sample["split"], dict(zip(sample["id"].tolist(), pairs, strict=True)))
        for split, scores in _gathered(mine):
            # By number: a process without a batch of its own repeats another's.
            self._scores.setdefault(split, {}).update(scores)
        return loss, size, {**logged, _VALIDATION: 1}

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
        """fairseq's hook: log the criterion's figures and, in validation, the correlations."""
        super().reduce_metrics(logging_outputs, criterion)
        if not any(_VALIDATION in log for log in logging_outputs):
            return
        split = list(self._scores)[-1]
        for name in (PEARSON, SPEARMAN):
            metrics.log_derived(name.lower(), partial(self._correlation, name, split))

    def _correlation(self, name: str, split: str, meters: Any) -> float:
        gold, predicted = zip(*self._scores[split].values(), strict=True)
        found = figures(ranked(gold), ranked(predicted))[name]
        return _UNDEFINED if found is None else round(found, 4)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint stores of the task."""
        return {**super().state_dict(), KEY: self.network_state.dump()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a checkpoint's state.

        Raises:
            UserError: as for ``check_state``.
        """
        self.check_state(state_dict, "the checkpoint")
        theirs = SentenceState.load(state_dict, "the checkpoint")
        super().load_state_dict({k: v for k, v in state_dict.items() if k != KEY})
        self.network_state = replace(theirs, config=self.network_state.config)

    def check_start(self, task_state: dict[str, Any], path: object) -> None:
        """Check what ``--finetune-from-model`` was trained on.

        Raises:
            UserError: if other parts of this corpus.
        """
        ours = self.network_state.meta
        theirs = task_state.get(KEY, {}).get("meta", {})
        # The vectors are the last of them; a model that was a Hugging Face folder has none.
        corpora = [next(iter(meta.get("inputs", {}).values()), None) for meta in (ours, theirs)]
        names = ("folds", "seed", "fold", "valid share")
        cuts = [[meta.get(name) for name in names] for meta in (ours, theirs)]
        held_out = ours["folds"] or ours.get("valid share")
        if held_out and corpora[0] == corpora[1] and cuts[0] != cuts[1]:
            fold = f"fold {self.cfg.fold} of " if ours["folds"] else ""
            raise UserError(
                f"--finetune-from-model {path} has learned from sentences that {fold}"
                f"{self.cfg.data} tests or validates; give a model of the same part"
            )

    def check_state(self, task_state: dict[str, Any], path: object) -> None:
        """Compare a checkpoint's state with what this folder has.

        Raises:
            UserError: if it was trained for another task, or with other words or labels.
        """
        theirs = SentenceState.load(task_state, path)
        ours = self.network_state
        built = ours.config is not None
        pair = [s.vocabulary if built else s.vocabulary.with_frozen(()) for s in (ours, theirs)]
        different = differences(*pair)
        if theirs.kind is not ours.kind:
            different = f"the tasks {ours.kind} and {theirs.kind}"
        elif theirs.meta.get("fold") != self.cfg.fold:  # its test set would be trained on
            different = f"the folds {self.cfg.fold} and {theirs.meta.get('fold')}"
        if different:
            raise UserError(
                f"{self.cfg.data} and {path} differ: {different}; give the folder and the fold it "
                "was trained on, or another --save-dir"
            )


def _gathered(mine: Any) -> list[Any]:
    """The objects of all processes, which must all call this."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return [mine]
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    return found
