"""``--task srl_tagging``: label the arguments of given predicates."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import FairseqTask, register_task
from omegaconf import MISSING

from selfattn.errors import UserError
from selfattn_tasks.srl import Sentence, read
from selfattn_tasks.srl.formats.lines import Line, read_lines_file
from selfattn_tasks.srl.tagger.features import Features
from selfattn_tasks.srl.tagger.predicates import (
    LABELS,
    TARGETS,
    UNMARKED,
    check_labels,
    predicate_tags,
)
from selfattn_tasks.srl.tagger.state import KEY, TaggerState
from selfattn_tasks.srl.tags import DECODERS
from selfattn_tasks.text import NUMBER, iter_lines
from selfattn_tasks.words.embeddings import WordVectors, read_vectors
from selfattn_tasks.words.vocabulary import Vocabulary, differences, read_symbols

from .._flags import flag
from ..compat import warm_start
from ..criterions.bio_tagging import IGNORED, BIOTaggingCriterion
from ..data.propositions import Example, PropositionDataset
from ..modules.outputs import outputs_of
from . import srl_counts
from ._shared import generate_nothing, is_training, short_enough, with_vectors


@dataclass
class SRLTaggingConfig(FairseqDataclass):
    """Flags of the task."""

    data: str = flag(MISSING, "folder that `selfattn prepare srl` wrote")
    max_length: int = flag(
        256, "leave out longer training sentences; other sets keep all sentences"
    )
    eval_decoder: ChoiceEnum(DECODERS) = flag(  # type: ignore[valid-type]
        "argmax",
        "decoder for validation, and so for choosing the best checkpoint; "
        "see `selfattn predict --help`",
    )
    keep_vectors: str = flag(
        "all",
        "which vectors of --word-embeddings a checkpoint holds besides those of "
        "training words: all, the first N in the file, or those of words in the *.txt and "
        "*.conll files of the data folder, whatever their format (seen); all other words "
        "remain unknown",
    )
    target: ChoiceEnum(TARGETS) = flag(  # type: ignore[valid-type]
        "arguments",
        "what to learn: the arguments of given predicates, which words are predicates "
        "(one pass a sentence), or both by one network",
    )


@register_task("srl_tagging", dataclass=SRLTaggingConfig)
class SRLTaggingTask(FairseqTask):
    """Semantic role labelling, validated by the official CoNLL-2005 score, with given predicates.

    Validation logs ``f1``, ``precision``, ``recall`` and ``perfect_props`` in percent, summed over
    all processes before they are divided, so that ``--best-checkpoint-metric f1`` is the score of
    ``selfattn score srl``. A tagger that finds predicates (``--target``) logs ``predicate_f1``,
    ``predicate_precision`` and ``predicate_recall``. Every checkpoint holds the vocabulary and the
    sizes of the model: ``selfattn predict`` needs nothing else.
    """

    # For messages of plugin/compat: what makes the data folder.
    prepared_by = "selfattn prepare srl"
    # What --criterion policy_gradient wraps.
    supervised_criterion = "bio_tagging"
    build_generator = generate_nothing

    def __init__(self, cfg: Any, vocabulary: Vocabulary) -> None:
        super().__init__(cfg)
        self.target = str(cfg.target)
        check_labels(vocabulary.labels, self.target, cfg.data)
        self.tagger = TaggerState(vocabulary, target=self.target)
        # The word vectors that a model starts from, while it is built.
        self.vectors: WordVectors | None = None
        # Whether the model is built to be trained, not to be validated.
        self.trains = False
        # The encoder of a model that has one, which splits words into pieces.
        self.features: Features | None = None
        self._spelt: dict[tuple[int, ...], tuple[int, ...]] = {}

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> "SRLTaggingTask":
        """fairseq's hook: read the dictionaries of the folder in ``cfg``.

        Raises:
            UserError: if it is not a prepared folder.
        """
        files = (Path(cfg.data, f"dict.{name}.txt") for name in ("word", "label"))
        words, labels = map(read_symbols, files)
        return cls(cfg, Vocabulary(words, LABELS if str(cfg.target) == "predicates" else labels))

    @property
    def vocabulary(self) -> Vocabulary:
        """Words and labels of the training data."""
        return self.tagger.vocabulary

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """fairseq's hook: build the criterion.

        Raises:
            UserError: for a criterion that cannot handle these batches.
        """
        criterion = super().build_criterion(cfg, from_checkpoint)
        if not isinstance(getattr(criterion, "supervised", criterion), BIOTaggingCriterion):
            name = getattr(cfg, "_name", type(criterion).__name__)
            raise UserError(
                f"--criterion {name} does not fit --task srl_tagging; give --criterion "
                "bio_tagging or bio_crf, or policy_gradient with --encoder-attention resa"
            )
        if hasattr(criterion, "supervised") and self._marks_late:
            raise UserError(
                "--late-layers does not fit --criterion policy_gradient, which needs selections of "
                "every proposition; leave it out"
            )
        return criterion

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """fairseq's hook: build the model from ``--word-embeddings``, or for a checkpoint.

        Raises:
            UserError: if the architecture is not a tagger, or one of its flags is wrong.
        """
        arch = getattr(cfg, "arch", None)
        if not getattr(ARCH_MODEL_REGISTRY.get(arch), "is_tagger", False):
            raise UserError(
                f"--arch {arch} is not a tagger; --task srl_tagging needs deepatt, deepatt_mtsa or "
                "another architecture of the model deepatt"
            )
        path = getattr(cfg, "word_embeddings", None)
        most = self._most_vectors()
        known = path or from_checkpoint or getattr(cfg, "finetune_from_model", None)
        if getattr(cfg, "encoder_freeze_embed", False) and not known:
            raise UserError(
                "--encoder-freeze-embed needs --word-embeddings FILE or --finetune-from-model "
                "CHECKPOINT: vectors that are drawn at random would stay as they are"
            )
        if path and not from_checkpoint:
            self.vectors = read_vectors(Path(path))
            self._keep(self.vectors, path, most)
        if getattr(cfg, "characters", 0) and not from_checkpoint:
            self._read_alphabet()
        model = super().build_model(cfg, from_checkpoint)
        self.vectors = None
        self.trains = not from_checkpoint
        self.features = model.tagger.features
        self.tagger = replace(self.tagger, config=model.tagger.config)
        return model

    @property
    def _marks_late(self) -> bool:
        return self.tagger.config is not None and self.tagger.config.late_layers > 0

    def _most_vectors(self) -> int | None:
        """The N of --keep-vectors; None without one."""
        choice = str(self.cfg.keep_vectors)
        if choice in ("all", "seen"):
            return None
        if not NUMBER.fullmatch(choice):
            raise UserError(f"--keep-vectors {choice} is not allowed; all, seen or a number is")
        return int(choice)

    def _keep(self, vectors: WordVectors, path: str, most: int | None) -> None:
        """Add the words whose vectors checkpoints will hold, and log the coverage."""
        words: Iterable[str] = vectors.words
        if str(self.cfg.keep_vectors) == "seen":
            met = _strings(Path(self.cfg.data))
            words = [word for word in vectors.words if word in met]
        vocabulary = with_vectors(self.vocabulary, vectors, path, words, most)
        self.tagger = replace(self.tagger, vocabulary=vocabulary)

    def _read_alphabet(self) -> None:
        """Take the characters of the training words, as they stand, into the vocabulary.

        Those of only one word remain unknown, so that the vector of unknown ones is trained.
        """
        lines = read_lines_file(Path(self.cfg.data, "train.txt"))
        words = {word for line in lines for word in line.words}
        counts = Counter(letter for word in words for letter in set(word))
        alphabet = "".join(sorted(letter for letter, count in counts.items() if count > 1))
        if not alphabet:
            raise UserError(f"--characters: no character occurs in two words of {self.cfg.data}")
        vocabulary = replace(self.vocabulary, alphabet=alphabet)
        self.tagger = replace(self.tagger, vocabulary=vocabulary)

    def load_dataset(self, split: str, combine: bool = False, **kwargs: Any) -> None:
        """fairseq's hook: read ``SPLIT.txt`` and ``SPLIT.conll``, or what of them is needed.

        Raises:
            UserError: if the files are missing or do not belong together.
        """
        path = Path(self.cfg.data, f"{split}.txt")
        if not path.is_file():
            raise UserError(
                f"{path} does not exist: give a folder that `{self.prepared_by}` wrote with "
                f"--{split}, or name existing sets (--train-subset, --valid-subset)"
            )
        lines = read_lines_file(path)
        train, examples = is_training(split, kwargs), []
        scored = split != "train"  # a set of another name may be that of validation, too
        columns = path.with_suffix(".conll")
        sentences = _sentences(columns) if scored or self.target != "arguments" else []
        if self.target != "predicates":
            gold = _gold(columns, sentences, lines) if scored else [None] * len(lines)
            examples += [self._example(*pair) for pair in zip(lines, gold, strict=True)]
        if self.target != "arguments":
            for sentence in sentences:
                line = Line(UNMARKED, sentence.words, tuple(predicate_tags(sentence)))
                examples.append(self._example(line, sentence if scored else None))
        if train and any(IGNORED in example.target for example in examples):
            raise UserError(
                f"{path} holds labels that dict.label.txt beside it lacks; prepare the folder "
                f"again with `{self.prepared_by}`"
            )
        if train:
            what = "propositions" if self.target == "arguments" else "propositions and sentences"
            longest = self.cfg.max_length
            examples = short_enough(examples, lambda e: len(e.words), longest, what)
        self.datasets[split] = PropositionDataset(examples, train, self._marks_late)

    def _example(self, line: Line, gold: Sentence | None = None) -> Example:
        labels = [self.vocabulary.label(tag) for tag in line.tags]
        target = [IGNORED if label is None else label for label in labels]
        pieces = self.features.pieces(line.words) if self.features else None
        words = self.vocabulary.encode(line.words)
        # Each different word is held once, however often it occurs.
        spellings = [self._spelt.setdefault(s, s) for s in self.vocabulary.spell(line.words)]
        return Example(words, line.predicate, target, gold, pieces, spellings)

    def valid_step(
        self, sample: dict[str, Any], model: Any, criterion: Any
    ) -> tuple[Any, Any, dict[str, Any]]:
        """fairseq's hook: the loss, and the counts of the scores.

        Raises:
            UserError: if it is the training set.
        """
        if not sample["gold"]:
            raise UserError(
                "--valid-subset train: the training set is read without the propositions that the "
                "scores need; put a copy of train.txt and train.conll beside it, and name that"
            )
        with outputs_of(model) as scores:
            loss, size, logged = super().valid_step(sample, model, criterion)
        counts = srl_counts.count(scores[0], sample, self.tagger, str(self.cfg.eval_decoder))
        return loss, size, {**logged, **counts}

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
        """fairseq's hook: log the criterion's figures and, in validation, the scores."""
        super().reduce_metrics(logging_outputs, criterion)
        srl_counts.log(logging_outputs)

    def state_dict(self) -> dict[str, Any]:
        """fairseq's hook: what a checkpoint stores about the task."""
        return {**super().state_dict(), KEY: self.tagger.dump()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """fairseq's hook: restore what a checkpoint stored.

        Raises:
            UserError: if it was trained with other words or labels than those of this folder.
        """
        state = dict(state_dict)
        self.check_state(state, "the checkpoint")
        vocabulary = Vocabulary.from_state(state.pop(KEY)["vocabulary"])
        super().load_state_dict(state)
        self.tagger = replace(self.tagger, vocabulary=vocabulary)

    def check_state(self, task_state: dict[str, Any], path: object) -> None:
        """Compare a checkpoint's state with what this folder has.

        Raises:
            UserError: if it was trained for another task, or with other words, labels or features.
        """
        stored = TaggerState.load(task_state, path)
        ours, theirs = self.vocabulary, stored.vocabulary
        if self.tagger.config is None:  # no model yet, from which words and alphabet would follow
            ours, theirs = (replace(v, frozen=(), alphabet="") for v in (ours, theirs))
        if different := differences(ours, theirs):
            raise UserError(
                f"{self.cfg.data} and {path} have different vocabularies: {different}; "
                "prepare the data again from the files that it was trained on, or start a new "
                "run in another --save-dir"
            )
        if stored.target != self.target and not warm_start.is_starting():
            raise UserError(
                f"--target is {self.target}, but {path} was trained with --target {stored.target}; "
                "give that one, or start a new run from it with --finetune-from-model"
            )
        old, new = (state.config and state.config.features for state in (stored, self.tagger))
        if old and new and not old.tuned and old.checksum != new.checksum:
            raise UserError(
                f"the encoder in --features {new.folder} is not the one of {path}; put that one "
                "there"
            )


def _strings(folder: Path) -> set[str]:
    """Everything between blanks in a folder's data, also in lower case: all words, in any format.

    Lemmas, tags and numbers are among them, which costs a few vectors.
    """
    files = (f for ending in ("txt", "conll") for f in folder.glob(f"*.{ending}"))
    found = {
        word
        for file in files
        if not file.name.startswith("dict.")
        for line in iter_lines(file)
        for word in line.split()
    }
    return found | {word.lower() for word in found}


def _sentences(path: Path) -> list[Sentence]:
    """The gold sentences of a prepared folder."""
    if not path.is_file():
        raise UserError(f"{path} does not exist; prepare the folder with `selfattn prepare srl`")
    return read(path)


def _gold(path: Path, sentences: list[Sentence], lines: list[Line]) -> list[Sentence]:
    """The gold sentence of each line, with its proposition alone; ``path`` is for messages."""
    gold = [replace(s, propositions=(p,)) for s in sentences for p in s.propositions]
    found = [(sentence.words, sentence.propositions[0].predicate) for sentence in gold]
    if found != [(line.words, line.predicate) for line in lines]:
        raise UserError(
            f"{path} and {path.with_suffix('.txt').name} hold different propositions; prepare the "
            "folder again with `selfattn prepare srl`"
        )
    return gold
