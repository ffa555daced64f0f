"""Translation models of Hugging Face: what they are searched with, and what they read."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from transformers import GenerationConfig  # noqa: E402

from selfattn_tasks.hf.translation import Search, set_search  # noqa: E402
from selfattn_tasks.hf.translator import Translator  # noqa: E402


@pytest.mark.parametrize("beam", [1, 2])
def test_a_search_is_saved(tmp_path, beam):
    settings = GenerationConfig()
    set_search(settings, Search(beam, lenpen=0.5, max_len_a=1.5))
    settings.save_pretrained(tmp_path)
    found = GenerationConfig.from_pretrained(tmp_path)
    assert (found.num_beams, found.max_len_a, found.max_len_b) == (beam, 1.5, 200)
    assert (found.length_penalty, found.early_stopping) == (
        (None, None) if beam == 1 else (0.5, True)
    )


def test_a_text_that_looks_like_a_special_token_is_text():
    """HTML has a tag <s>."""
    translate = Translator.from_pretrained("translation-en-de-small")
    numbers = translate.encode(["<s>Old</s> <pad>"])["input_ids"][0]
    assert numbers[-1] == 2 and not {0, 1, 2} & set(numbers[:-1])
    said = "".join(translate.tokenizer.convert_ids_to_tokens(numbers[:-1])).replace("\u2581", " ")
    assert said.split() == ["<s>Old</s>", "<pad>"]
