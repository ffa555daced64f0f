"""Every sentence reaches the model."""

import numpy as np
import pytest

pytest.importorskip("fairseq")
pytestmark = pytest.mark.fairseq

from fairseq.data import data_utils  # noqa: E402

import plugin  # noqa: E402, F401 - the repairs


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
