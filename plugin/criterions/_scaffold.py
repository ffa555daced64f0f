"""A syntactic scaffold: trees of training sentences, which a tagger learns beside its labels."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.dataclass import FairseqDataclass
from torch import Tensor, nn
from torch.nn import functional

from selfattn.errors import UserError
from selfattn_tasks.srl import read
from selfattn_tasks.srl.formats.conllu import UNKNOWN, Tree, read_trees
from selfattn_tasks.srl.formats.lines import read_lines_file
from selfattn_tasks.srl.tagger.network import TaggerConfig
from selfattn_tasks.words.vocabulary import PADDING, Vocabulary

from .._flags import flag
from ._sums import log_mean

logger = logging.getLogger(__name__)
# Target of words that do not count, of padding among them.
_IGNORED = -100
# What is learnt of each word: one classifier for each of these fields of Tree.
_LEARNT = ("tags", "heads", "relations")


@dataclass
class ScaffoldConfig(FairseqDataclass):
    """Flags of criterions that take a scaffold."""

    scaffold: Optional[str] = flag(  # noqa: UP045 - fairseq reads no other form
        None,
        "CoNLL-U file with trees of training sentences, in any order: the network also learns each "
        "word's part of speech, head and relation, which prediction does not need",
    )
    scaffold_weight: float = flag(0.5, "what each of the three losses of --scaffold counts")
    scaffold_layer: int = flag(0, "the layer that --scaffold trains (default: 0, the middle one)")


class Scaffold(nn.Module):
    """Losses of part of speech, head and relation, from one layer of a tagger.

    Multi-task learning as in Swayamdipta et al. (2018), section 2; heads are labels of words, by
    their distance (Strzyz et al. 2019). The classifiers belong to training: checkpoints
    hold them beside the network, for resuming, and predictions do not need them.

    Differs:
        Swayamdipta et al. learn constituents of spans in a segmental model, from any treebank; here
        every word has a part of speech and a dependency, learnt from a lower layer as in Strubell
        et al. (2018), and the trees are those of the sentences with roles.

    Args:
        trees: of two with the same words, the first counts.
        sentences: words of each training sentence.
        vocabulary: of the training data.
        tagger: sizes of the network.
        layer: counted from 1; 0: the middle one.
        name: of the file, for messages.
        weight: what the losses count.

    Raises:
        UserError: if there is no such layer.
    """

    def __init__(
        self,
        trees: Sequence[Tree],
        sentences: Iterable[tuple[str, ...]],
        vocabulary: Vocabulary,
        tagger: TaggerConfig,
        layer: int,
        name: str,
        weight: float = 1.0,
    ) -> None:
        super().__init__()
        self.weight = weight
        if not 0 <= layer <= tagger.layers:
            raise UserError(
                f"--scaffold-layer {layer} is not allowed; it must be from 1 to {tagger.layers}, "
                "or 0 for the middle one"
            )
        self.layer = layer or -(-tagger.layers // 2)
        found = ({label for t in trees for label in getattr(t, field)} for field in _LEARNT)
        self.labels = [sorted(labels - {UNKNOWN}) for labels in found]
        for field, labels in zip(_LEARNT, self.labels, strict=True):
            if not labels:
                logger.warning("--scaffold %s has no %s: they are not learnt", name, field)
        self.classifiers = nn.ModuleList(
            nn.Linear(tagger.width, max(len(labels), 1)) for labels in self.labels
        )
        numbers = [{label: i for i, label in enumerate(labels)} for labels in self.labels]
        of_words = {
            tree.words: [
                [known.get(label, _IGNORED) for label in getattr(tree, field)]
                for field, known in zip(_LEARNT, numbers, strict=True)
            ]
            for tree in reversed(trees)
        }
        self._targets: dict[tuple[int, ...], list[list[int]] | None] = {}
        for words in sentences:
            rows, target = tuple(vocabulary.encode(words)), of_words.get(words)
            # Unknown words make sentences alike: none then has a tree, unless all have the same.
            if self._targets.setdefault(rows, target) != target:
                self._targets[rows] = None

    def get_extra_state(self) -> dict[str, Any]:
        """torch's hook: the names of the labels, for a checkpoint."""
        return {"labels": self.labels}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """torch's hook: compare the names with a checkpoint's.

        Raises:
            UserError: if they differ.
        """
        if state["labels"] != self.labels:
            raise UserError(
                "--scaffold has other labels than the checkpoint was trained with; give the same "
                "file, or another --save-dir"
            )

    def targets(self, words: Tensor) -> Tensor:
        """Numbers of the labels.

        Args:
            words: ``(S, T)`` row numbers, padded on the right.

        Returns:
            ``(3, S, T)``; ``-100`` for padding, and for sentences without a tree.
        """
        targets = torch.full((len(_LEARNT), *words.shape), _IGNORED)
        lengths = (words != PADDING).sum(1).tolist()
        for i, (row, length) in enumerate(zip(words.tolist(), lengths, strict=True)):
            found = self._targets.get(tuple(row[:length]))
            if found is not None:
                targets[:, i, :length] = torch.tensor(found)
        return targets.to(words.device)

    def forward(self, hidden: Tensor, words: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The losses.

        Args:
            hidden: ``(S, T, C)``, what the layer gave.
            words: ``(S, T)``.

        Returns:
            their sum over classifiers and words in nats, and what to log: that sum, the words that
            count, and all words.
        """
        targets = self.targets(words)
        losses = [
            functional.cross_entropy(
                classifier(hidden).float().flatten(0, 1), target.flatten(), reduction="sum"
            )
            for classifier, target in zip(self.classifiers, targets, strict=True)
        ]
        loss = torch.stack(losses).sum()
        return loss, {
            "scaffold_loss": loss.data,
            "scaffold_learnt": (targets != _IGNORED).any(0).sum(),
            "scaffold_words": (words != PADDING).sum(),
        }


def log_scaffold(logging_outputs: list[dict[str, Any]]) -> None:
    """Log the mean loss in nats per word, and the share of words that have a tree in percent."""
    log_mean(logging_outputs, "scaffold_loss", over="scaffold_learnt")
    log_mean(
        logging_outputs, "scaffold_learnt", over="scaffold_words", digits=2, percent="scaffold_seen"
    )


def build_scaffold(task: Any, cfg: Any) -> Scaffold | None:
    """What ``--scaffold`` asks for; None without it, and where nothing is trained.

    Args:
        task: ``srl_tagging``, with a network that is built.
        cfg: flags of a criterion; those of :class:`ScaffoldConfig` may be missing.

    Raises:
        UserError: if a flag's value is not allowed, the file is not CoNLL-U, or no training
            sentence is in it.
    """
    path, weight = getattr(cfg, "scaffold", None), getattr(cfg, "scaffold_weight", 1.0)
    if not weight > 0:
        raise UserError(f"--scaffold-weight {weight} is not allowed; it must be above 0")
    sizes: TaggerConfig | None = getattr(getattr(task, "tagger", None), "config", None)
    if path is None or sizes is None or not task.trains:
        return None
    trees = read_trees(Path(path))
    train = Path(task.cfg.data, "train.txt")
    sentences = {tuple(line.words) for line in read_lines_file(train)}
    if sentences.isdisjoint(tree.words for tree in trees):
        raise UserError(f"--scaffold {path} holds no sentence of {train} with exactly its words")
    if task.target != "arguments":  # also those without a predicate
        sentences.update(sentence.words for sentence in read(train.with_suffix(".conll")))
    return Scaffold(trees, sentences, task.vocabulary, sizes, cfg.scaffold_layer, path, weight)
