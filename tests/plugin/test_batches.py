"""Every sentence reaches the model."""

import numpy as np
import pytest
import torch
from fairseq.data import FairseqDataset, data_utils
from fairseq.modules import FairseqDropout
from fairseq.tasks import FairseqTask

from benchmarks import fairseq_update
from benchmarks.method import Setup


@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 20, 100])
@pytest.mark.parametrize("max_tokens", [40, 100, 12000])
def test_no_sentence_is_left_out(size, multiple, max_tokens):
    lengths = np.random.default_rng(size).integers(1, 9, size)
    batches = data_utils.batch_by_size(
        np.arange(size),
        num_tokens_fn=None,
        num_tokens_vec=lengths,
        max_tokens=max_tokens,
        required_batch_size_multiple=multiple,
    )
    assert np.concatenate(batches).tolist() == list(range(size))
    assert all(len(batch) * lengths[batch].max() <= max_tokens for batch in batches)


class Numbers(FairseqDataset):
    """Thirty-two of them, in batches of four."""

    sizes = np.ones(32, int)

    def __len__(self):
        return 32

    def __getitem__(self, index):
        return index

    def ordered_indices(self):
        return np.arange(32)

    def num_tokens_vec(self, indices):
        return self.sizes[indices]

    def collater(self, samples):
        return samples


def epochs(first):
    """The batches of each epoch up to the fourth, with ``--curriculum 2``."""
    batches = FairseqTask(None).get_batch_iterator(Numbers(), max_sentences=4, epoch=first)
    return {
        epoch: list(batches.next_epoch_itr(shuffle=batches.next_epoch_idx > 2))
        for epoch in range(first, 5)
    }


def test_epochs_behind_the_curriculum_are_shuffled_as_after_a_resume():
    whole = epochs(first=1)
    assert whole[1] == whole[2] == sorted(whole[3]) != whole[3] != whole[4]
    assert epochs(first=4) == {4: whole[4]}


class Epochs(Numbers):
    """The number of the epoch, thirty-two times."""

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, index):
        return self.epoch


@pytest.mark.parametrize("workers", [0, 1])
def test_every_process_that_loads_data_knows_the_epoch(workers):
    """Masks differ from epoch to epoch, and do not depend on where a run was resumed."""
    batches = FairseqTask(None).get_batch_iterator(Epochs(), 32, 32, num_workers=workers)
    assert [list(batches.next_epoch_itr()) for _ in range(3)] == [[[n] * 32] for n in (1, 2, 3)]


def test_batches_that_fill_up_an_epoch_do_not_count(monkeypatch):
    """Those of a process that has fewer than others, in an update of several (--update-freq)."""
    monkeypatch.setattr(fairseq_update, "WORDS", 40)
    found = []
    for pattern in ("x", "x.", ".x", "x.x", "."):
        method = fairseq_update.FairseqMethod("mtsa", "paper")
        trainer = method._trainer(Setup(16, 2, ffn_dim=16), 8)
        for module in trainer.model.modules():
            if isinstance(module, FairseqDropout):
                module.p = 0.0
        batch, other = (
            fairseq_update._batch(trainer.task, size, 8, seed, trainer.device)
            for seed, size in ((1, 3), (2, 5))
        )
        trainer.reset_dummy_batch(other)
        logged = trainer.train_step([batch if letter == "x" else {} for letter in pattern])
        grads = torch.cat([p.grad.flatten() for p in trainer.model.parameters()])
        found.append((grads, logged["loss"], logged["sample_size"]))
    once, *same, nothing = found
    for grads, loss, size in same:
        torch.testing.assert_close(grads, once[0])
        assert loss == once[1] and size in (once[2], 2 * once[2])
    assert not nothing[0].any() and nothing[2] == 0
