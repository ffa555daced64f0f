"""Models that fairseq trained, as Hugging Face folders, and back."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

import safetensors.torch

from selfattn.errors import UserError
from selfattn.hf import SelfattnConfig, SelfattnForConditionalGeneration
from selfattn_experiments.commands.show import find
from selfattn_experiments.commands.verbs import VERBS
from selfattn_tasks import checkpoints
from selfattn_tasks.hf import pieces, translation
from selfattn_tasks.hf.names import config_of
from selfattn_tasks.hf.translator import Translator
from selfattn_tasks.text import clean_line
from selfattn_tasks.translation import vocabulary
from tests.conftest import run_verb

LIMIT = 10
# Six rare words, one of characters without a piece, odd spaces, and nothing.
STRANGE = ["a0 b1 c2", "  xa0\tb5  c\u00adc ", "zzz \u732b\u72ac a0 \u0439", "\u2581a b", ""]


export, predict = partial(run_verb, "export"), partial(run_verb, "predict")


def load(folder: Path):
    """A folder's model and tokenizer by the Auto classes."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    import selfattn.hf  # noqa: F401

    return (
        AutoModelForSeq2SeqLM.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )


def in_fairseq(folder: Path, **found: str):
    """A checkpoint as fairseq's hub interface."""
    from plugin.models.transformer import AttentionTransformerModel

    return AttentionTransformerModel.from_pretrained(str(folder), **found).eval()


def translations(hub, sentences: list[torch.Tensor]) -> list[list[int]]:
    found = hub.generate(sentences, beam=5, max_len_a=0, max_len_b=LIMIT)
    return [best[0]["tokens"].tolist() for best in found]


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """A function from an attention's name to the folder of its run, and what was made of it."""
    made = {}

    def get(attention: str) -> tuple[Path, Path]:
        if attention not in made:
            run, folder = trained(attention)[0], tmp_path_factory.mktemp(attention) / "hf"
            words = ["--max-len-b", LIMIT, "--license", "mit", "--trained-on", "a toy"]
            export("--to", "hf", run / "checkpoint_last.pt", folder, *words)
            made[attention] = run, folder
        return made[attention]

    return get


@pytest.mark.parametrize("attention", ["mtsa", "multihead"])
def test_the_same_numbers_encodings_and_translations(exported, prepared, attention):
    run, folder = exported(attention)
    model, tokenizer = load(folder)
    hub = in_fairseq(run, checkpoint_file="checkpoint_last.pt")
    texts = (prepared / "raw" / "test.src").read_text(encoding="utf-8").splitlines()
    sentences = [hub.encode(text) for text in texts]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    keep = batch["attention_mask"].bool()
    assert [row[k].tolist() for row, k in zip(batch["input_ids"], keep, strict=True)] == [
        sentence.tolist() for sentence in sentences
    ]
    encoded = model.encoder(batch["input_ids"], batch["attention_mask"])[0]
    for row, sentence, k in zip(encoded, sentences, keep, strict=True):
        expected = hub.models[0].encoder(sentence[None])["encoder_out"][0][:, 0]
        torch.testing.assert_close(row[k], expected, rtol=0, atol=1e-5)
    expected = translations(hub, sentences)
    found = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"]).tolist()
    assert [row[1 : 1 + len(e)] for row, e in zip(found, expected, strict=True)] == expected
    assert all(set(row[1 + len(e) :]) <= {1} for row, e in zip(found, expected, strict=True))
    assert len({tuple(row) for row in expected}) > 1


@pytest.mark.parametrize("attention", ["mtsa", "multihead"])
def test_the_encoder_s_attention_is_the_checkpoint_s(exported, attention):
    run, folder = exported(attention)

    def look(model: Path, text: str = "a0 b1 zzz"):
        args = VERBS["show"].load_parser("selfattn show").parse_args([str(model), text])
        (found,) = find(args)
        return found

    expected, found = look(run / "checkpoint_last.pt"), look(folder)
    assert "2 of 7 pieces are unknown to the model" in found.note
    for name in ("tokens", "attentions", "note"):
        assert list(getattr(found, name)) == list(getattr(expected, name)), name
    for ours, theirs in zip(found.layers, expected.layers, strict=True):
        assert ours.masks == theirs.masks
        for part in ("token2token", "source2token"):
            numbers = getattr(ours, part), getattr(theirs, part)
            torch.testing.assert_close(*numbers, rtol=0, atol=1e-12)
    with pytest.raises(UserError, match="the sentence is empty"):
        look(folder, " ")


def test_back_to_fairseq(exported, tmp_path):
    for attention in ("mtsa", "multihead"):
        run, folder = exported(attention)
        back = tmp_path / attention
        back.mkdir()
        export("--to", "fairseq", folder, back / "model.pt")
        with pytest.raises(UserError, match=r"dict\.src\.txt belongs to another model"):
            (back / "dict.src.txt").rename(back / "kept")
            (back / "dict.src.txt").write_text("a 1\n")
            export("--to", "fairseq", folder, back / "other.pt")
        (back / "kept").rename(back / "dict.src.txt")
        assert not (back / "other.pt").exists()
        first = in_fairseq(run, checkpoint_file="checkpoint_last.pt")
        second = in_fairseq(back)
        sentences = [first.encode(text) for text in ("a0 b1", "c2 c3 a1 b0")]
        assert [s.tolist() for s in sentences] == [
            second.encode(text).tolist() for text in ("a0 b1", "c2 c3 a1 b0")
        ]
        assert translations(first, sentences) == translations(second, sentences)


@pytest.mark.parametrize("attention", ["biblosa", "multihead"])
def test_a_new_model_computes_the_same_in_fairseq(exported, tmp_path, attention):
    """One that transformers built; what fairseq's Transformer cannot be is refused."""
    folder, back = tmp_path / "new", tmp_path / "back"
    shutil.copytree(exported("mtsa")[1], folder)
    back.mkdir()
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    vocabulary = load(folder)[0].config.vocab_size
    config = SelfattnConfig(vocab_size=vocabulary, attention=attention, hidden_act="gelu", **sizes)
    model = SelfattnForConditionalGeneration(config).eval()
    model.save_pretrained(folder)
    export("--to", "fairseq", folder, back / "model.pt")
    hub = in_fairseq(back)
    source = torch.randint(4, vocabulary, (2, 50))
    expected = hub.models[0].encoder(source)["encoder_out"][0].transpose(0, 1)
    torch.testing.assert_close(model.encoder(source)[0], expected, rtol=0, atol=1e-5)
    for changes, message in (
        ({"decoder_start_token_id": 0}, "decoder_start_token_id 0, but in fairseq it is always 2"),
        ({"first_position": 1}, "first_position 1, but in fairseq it is always 2"),
        ({"hidden_act": "silu"}, "hidden_act 'silu'; fairseq has relu, gelu"),
    ):
        other = SelfattnConfig(**{**config.to_dict(), **changes})
        SelfattnForConditionalGeneration(other).save_pretrained(folder)
        with pytest.raises(UserError, match=message):
            export("--to", "fairseq", folder, back / "other.pt")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_keep_their_precision(exported, prepared, tmp_path, dtype):
    """What float16 cannot hold, bfloat16 can."""
    state = checkpoints.read(exported("mtsa")[0] / "checkpoint_last.pt")
    weights = {n: t.to(dtype) if t.is_floating_point() else t for n, t in state["model"].items()}
    small = weights["encoder.layers.0.fc1.bias"].fill_(1e-8 if dtype == torch.bfloat16 else 1e-4)
    path = exported("mtsa")[0] / "checkpoint_last.pt"
    data = str(prepared / "data-bin")
    model = translation.to_hf({**state, "model": weights}, tmp_path, path, data)
    stored = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {dtype}
    again = SelfattnForConditionalGeneration.from_pretrained(tmp_path)
    for (name, old), new in zip(model.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(old, new), name
    assert small.any() and torch.equal(again.encoder.layers[0].feed_forward.fc1.bias, small.float())


def test_lower_casing_goes_along(exported, tmp_path):
    _, folder = exported("mtsa")
    shutil.copytree(folder, tmp_path / "hf")
    file = tmp_path / "hf" / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["normalizer"]["normalizers"].append({"type": "Lowercase"})
    file.write_text(json.dumps(content), encoding="utf-8")
    for name, equal in ((folder, False), (tmp_path / "hf", True)):
        back = tmp_path / f"back-{equal}"
        back.mkdir()
        export("--to", "fairseq", name, back / "model.pt")
        export("--to", "hf", back / "model.pt", back / "hf")
        _, tokenizer = load(back / "hf")
        found = [tokenizer(text)["input_ids"] for text in ("a0 b1", "A0 B1")]
        assert (found[0] == found[1]) == equal


def test_dictionaries_elsewhere(exported, prepared, tmp_path, monkeypatch):
    run, folder = exported("mtsa")
    shutil.copy(run / "checkpoint_last.pt", tmp_path / "model.pt")
    monkeypatch.chdir(prepared)  # of which --data is a part, not of the checkpoint's folder
    export("--to", "hf", tmp_path / "model.pt", tmp_path / "hf", "--data", "data-bin")
    assert load(tmp_path / "hf")[1]("a0 b1") == load(folder)[1]("a0 b1")
    for file in Path("data-bin").glob("dict.*.txt"):
        shutil.copy(file, tmp_path)
    with pytest.raises(UserError, match="has the piece .* but there is no SentencePiece model"):
        export("--to", "hf", tmp_path / "model.pt", tmp_path / "hf2")


def test_a_run_is_not_taken_for_an_exported_folder(exported, tmp_path):
    run, _ = exported("mtsa")
    saves = tmp_path / "mtsa-1" / "checkpoints"
    saves.mkdir(parents=True)
    shutil.copy(run / "checkpoint_last.pt", saves / "checkpoint_best.pt")
    (saves.parent / "config.json").write_text("{}")  # as the runner writes it
    with pytest.raises(UserError, match=r"mtsa-1 holds something else \(no model.safetensors\)"):
        export("--to", "hf", saves / "checkpoint_best.pt", saves.parent, "--overwrite")
    assert (saves / "checkpoint_best.pt").is_file()


@pytest.mark.parametrize("kind", vocabulary.MODEL_TYPES)
def test_the_tokenizer_splits_as_sentencepiece_does(tmp_path, kind):
    """Also into pieces that the dictionary lacks, which are unknown there."""
    text = [" ".join(f"{a}{b}{a}{a}b" for a in "xyzaab"[i:] for b in "aabb") for i in range(5)] * 9
    vocabulary.learn(text, tmp_path / "spm", 20, kind)
    spm = vocabulary.load(tmp_path / "spm.model")
    used = {piece for line in spm.encode(text) for piece in line}
    entries = [*pieces.SPECIAL, *sorted(used)[::2]]  # half of them are unknown
    from selfattn.hf import SelfattnTokenizer

    tokenizer = SelfattnTokenizer(
        tokenizer_object=pieces.build_tokenizer(entries, tmp_path / "spm.model", lowercase=True),
        known=len(entries), unk_token="<unk>", eos_token="</s>", pad_token="<pad>",
    )  # fmt: skip
    tokenizer.save_pretrained(tmp_path / "saved")
    tokenizer = SelfattnTokenizer.from_pretrained(tmp_path / "saved")
    numbers = {entry: number for number, entry in enumerate(entries)}
    for line in [*text, *STRANGE, "XAAAABBBAAB aaaaaaaaa", "\u00c4\u0130 x T\u0308 x\u200b\u0308"]:
        split = spm.encode(clean_line(line, lowercase=True), out_type=str)
        expected = [numbers.get(piece, 3) for piece in split] + [2]
        assert tokenizer(line)["input_ids"] == expected, (line, split)
        assert tokenizer([line], return_tensors="pt")["input_ids"].tolist() == [expected]
    assert 3 in expected


def test_predict_translates_by_a_folder_or_a_checkpoint(exported, tmp_path, capfdbinary):
    run, folder = exported("mtsa")
    model, tokenizer = load(folder)
    texts = ["a0 b1 c2", "", "b5 a0 a1 b2 c0", "c1"]
    batch = tokenizer([text for text in texts if text], return_tensors="pt", padding=True)
    said = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    said.insert(1, "")
    assert len(set(said)) > 1
    source = tmp_path / "source"
    source.write_text("\n".join(texts), encoding="utf-8")
    predict("--model", folder, "--input", source, "--output", tmp_path / "said")
    assert (tmp_path / "said").read_text(encoding="utf-8").split("\n") == [*said, ""]
    capfdbinary.readouterr()
    predict("--model", folder, *texts)
    assert capfdbinary.readouterr().out.decode().split("\n") == [*said, ""]

    half = run / "half.pt"
    run_verb("average", "--inputs", run / "checkpoint_last.pt", "--half", "--output", half)
    export("--to", "hf", half, tmp_path / "half", "--max-len-b", LIMIT)
    sizes = [(f / "model.safetensors").stat().st_size for f in (folder, tmp_path / "half")]
    assert sizes[1] < 0.6 * sizes[0]
    assert {p.dtype for p in load(tmp_path / "half")[0].parameters()} == {torch.float32}
    of_folder, of_checkpoint = (Translator.from_pretrained(p) for p in (tmp_path / "half", half))
    of_checkpoint.model.generation_config = of_folder.model.generation_config
    assert [*of_folder.stream(texts)] == [*of_checkpoint.stream(texts)]
    with pytest.raises(UserError, match="'a0 a0 .*has 2049 pieces; the model takes 1024"):
        of_folder("a0 " * 1024)
    for flag, *more in (("--decoder", "strict", "a0"), ("--word-column", "0", "--input", source)):
        with pytest.raises(UserError, match=f"{flag} belongs to models of semantic roles"):
            predict("--model", folder, flag, *more)


def test_a_card_says_what_is_known_and_what_is_not(exported, tmp_path):
    run, folder = exported("mtsa")
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert 'license: "mit"' in card and "| data | a toy |" in card
    assert "No scores are recorded." in card
    record = {
        "run": "mtsa-1", "seed": 1, "updates": 15, "commits": ["abc1234"],
        "scores": {"test": {"BLEU": 31.68}}, "signatures": {"BLEU": "nrefs:1|case:lc"},
        "test": {"checkpoint": "best"},
    }  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(record))
    copy = tmp_path / "checkpoints" / "checkpoint_best.pt"
    copy.parent.mkdir()
    shutil.copy(run / "checkpoint_best.pt", copy)
    export("--to", "hf", copy.parent, tmp_path / "hf")
    card = (tmp_path / "hf" / "README.md").read_text(encoding="utf-8")
    assert "| test | BLEU | 31.68 | nrefs:1\\|case:lc |" in card
    assert "| commit | abc1234 |" in card and "| licence | not stated |" in card


def test_what_is_not_exported(exported, prepared, tmp_path):
    run, _ = exported("mtsa")
    path = run / "checkpoint_last.pt"
    data = tmp_path / "data"
    shutil.copytree(prepared / "data-bin", data)
    words = (data / "dict.src.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    for names, message in ((["tgt"], "differ"), (["src", "tgt"], "not those that")):
        for name in names:
            (data / f"dict.{name}.txt").write_text("".join(words[::-1]), encoding="utf-8")
        with pytest.raises(UserError, match=message):
            translation.to_hf(checkpoints.read(path), tmp_path / "hf", path, str(data))
    weights = {"decoder.embed_tokens.weight": torch.zeros(2, 2)}
    for flags, message in (
        ({}, "is not a Transformer"),
        ({"encoder_embed_dim": 4, "cross_self_attention": True}, "--cross-self-attention"),
        ({"encoder_embed_dim": 4, "decoder_embed_dim": 8}, "-dim 4, but --decoder-embed-dim 8;"),
        (
            {"encoder_embed_dim": 4, "decoder_embed_dim": 4, "decoder_output_dim": 2},
            "--decoder-embed-dim 4, but --decoder-output-dim 2; only models where they are equal",
        ),
        (
            {
                "encoder_embed_dim": 4, "encoder_learned_pos": True, "decoder_learned_pos": True,
                "max_source_positions": 9, "max_target_positions": 8,
            },
            "--max-source-positions 9, but --max-target-positions 8",
        ),
    ):  # fmt: skip
        with pytest.raises(UserError, match=message):
            config_of(flags, weights, path)
    for change in ("encoder.layers.0.conv.weight", "decoder.layers.0.fc1.weight"):
        state = checkpoints.read(path)
        state["model"][change] = torch.zeros(2)
        with pytest.raises(UserError, match=r"has --arch transformer_mtsa_tiny, and .*; only Tra"):
            translation.to_hf(state, tmp_path / "hf", path, str(prepared / "data-bin"))
    assert not (tmp_path / "hf").exists()


def test_an_attention_without_flags_is_not_taken_for_the_default(exported, prepared, tmp_path):
    """A user directory's model may have any switches of `build_attention`, and stores none."""
    state = checkpoints.read(exported("mtsa")[0] / "checkpoint_last.pt")
    flags = state["cfg"]["model"]
    flags.__dict__ = {n: v for n, v in vars(flags).items() if "mtsa_" not in n}
    torch.save(state, tmp_path / "own.pt")
    with pytest.raises(UserError, match="has --arch transformer_mtsa_tiny, which does not store"):
        export("--to", "hf", tmp_path / "own.pt", tmp_path / "hf", "--data", prepared / "data-bin")
