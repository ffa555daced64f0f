"""Look into the encoder of a trained translation model, layer by layer."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.layers import Inspection
from selfattn.layers.inspection import looking_into, mask_names
from selfattn.masks import PositionalMask, check_padding_mask
from selfattn_tasks import checkpoints
from selfattn_tasks.capture import inspect_self_attention, inspections

from .models.transformer import AttentionTransformerModel
from .modules.encoder_attention import EncoderAttention


def load(path: Path, data: str | None = None, user_dir: str | None = None) -> Any:
    """A translation model that can be looked into, as fairseq's ``from_pretrained`` has it.

    Args:
        path: the checkpoint.
        data: folder of the dictionaries; default: see ``parts.find_parts``.
        user_dir: folder that registers the model's architecture, if this plugin does not.

    Raises:
        UserError: if the checkpoint, its dictionaries, its architecture or layers are not found.
    """
    _check_architecture(path, user_dir)
    # fairseq takes a path that begins with a dot as one below the checkpoint's folder.
    where = None if data is None else str(Path(data).absolute())
    found = AttentionTransformerModel.from_pretrained(str(path.parent), path.name, where)
    layers = getattr(getattr(found.models[0], "encoder", None), "layers", None)
    if not layers or not all(hasattr(layer, "self_attn") for layer in layers):
        raise UserError(f"{path} holds no encoder with self-attention layers")
    return found


def look(found: Any, sentence: str) -> tuple[tuple[str, ...], list[Inspection], str, int]:
    """Split a sentence into pieces, and look into every layer.

    Args:
        found: what ``load`` returns; it is turned into float64 and left so.
        sentence: one sentence.

    Returns:
        Its pieces with the end of sentence, an inspection per layer, the mechanism's name, and how
        many pieces the model does not know.

    Raises:
        UserError: if the sentence is empty or too long, or the attention has nothing to show.
    """
    if not sentence.strip():
        raise UserError("the sentence is empty; type at least one word")
    model = found.models[0]
    attentions: list[Any] = [layer.self_attn for layer in model.encoder.layers]
    text = found.apply_bpe(found.tokenize(sentence))
    tokens = found.binarize(text)
    longest = model.max_positions()[0]
    if len(tokens) > longest:
        raise UserError(f"the sentence has {len(tokens)} pieces; the model takes {longest}")
    modules = [a.attention if isinstance(a, EncoderAttention) else a for a in attentions]
    batch = {"src_tokens": tokens[None], "src_lengths": torch.tensor([len(tokens)])}
    seen = inspections(model, modules, lambda: model.encoder(**batch), _inspect)
    unknown = int((tokens == found.src_dict.unk()).sum())
    first = attentions[0]
    name = first.name if isinstance(first, EncoderAttention) else "multihead"
    return (*text.split(), "</s>"), seen, name, unknown


def _check_architecture(path: Path, user_dir: str | None) -> None:
    if user_dir is not None:
        try:
            utils.import_user_module(Namespace(user_dir=user_dir))
        except (FileNotFoundError, ImportError) as error:
            raise UserError(f"--user-dir {user_dir} cannot be imported: {error}") from None
    flags = checkpoints.flags(checkpoints.read(path))
    arch = flags.get("arch") or flags.get("_name")
    if arch not in ARCH_MODEL_REGISTRY:
        raise UserError(
            f"{path} has the architecture {arch}, which is not registered; name the folder that "
            "registers it with --user-dir"
        )


def _inspect(module: nn.Module, *args: Any, **kwargs: Any) -> Inspection:
    if isinstance(module, MultiheadAttention):
        return inspect_fairseq_multihead(module, kwargs["query"], kwargs["key_padding_mask"])
    return inspect_self_attention(module, *args, **kwargs)


def inspect_fairseq_multihead(
    module: MultiheadAttention, x: Tensor, padding_mask: Tensor | None = None
) -> Inspection:
    """Look into fairseq's own self-attention; the softmax is ours, fairseq's is float32.

    Args:
        module: the attention.
        x: its input, ``(T, B, C)``.
        padding_mask: bool ``(B, T)``, True = padding.
    """
    check_padding_mask(padding_mask, x.shape[1::-1])
    usual = module.skip_embed_dim_check
    # With the check, fairseq calls PyTorch's function, which returns only the mean of the heads.
    module.skip_embed_dim_check = True
    try:
        with looking_into(module):
            scores, _ = module(x, x, x, padding_mask, before_softmax=True)
    finally:
        module.skip_embed_dim_check = usual
    weights = torch.softmax(scores.unflatten(0, (x.shape[1], module.num_heads)), -1)
    return Inspection(mask_names([PositionalMask()] * module.num_heads), weights)
