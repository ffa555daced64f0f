"""The experiment of train.sh by transformers' Seq2SeqTrainer: same model, batches, rate and loss.

From the root of the clone, after prepare.sh; an interrupted run resumes where it stopped:

  python examples/multi30k_en_de/train_hf.py FOLDER_WITH_THE_RAW_TEXT data-bin/multi30k \
      runs/hf/mtsa-1
  selfattn score translation runs/hf/mtsa-1/test.hyp --ref data-bin/multi30k/raw/test.de --lowercase
"""

import argparse
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

from selfattn.config import CONFIGS
from selfattn.config.base import FAIRSEQS
from selfattn.hf import SelfattnConfig, SelfattnForConditionalGeneration
from selfattn_tasks.files import read_object, write_lines
from selfattn_tasks.hf.pieces import read_dictionary
from selfattn_tasks.hf.translation import Search, set_search, tokenizer_of
from selfattn_tasks.hf.translator import Translator
from selfattn_tasks.text import Cleaning, clean_pairs, read_lines, read_pairs

Row = dict[str, list[int]]


def new_model(attention: str, preset: str | None, vocabulary: int) -> Any:
    """4 layers, 128 wide, feed-forward 256, 4 heads."""
    config = SelfattnConfig(
        vocab_size=vocabulary, attention=attention, preset=preset, hidden_size=128,
        intermediate_size=256, num_hidden_layers=4, num_attention_heads=4, dropout=0.1,
        switches=CONFIGS[attention].as_fairseq(),
    )  # fmt: skip
    model = SelfattnForConditionalGeneration(config)
    if attention == "multihead":
        for name, weight in model.encoder.named_parameters():
            if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
                weight.data *= FAIRSEQS["qkv_init_gain"]
    set_search(model.generation_config, Search(max_len_a=1.2, max_len_b=10))
    return model


def size(rows: list[Row]) -> int:
    """Tokens of the longest side."""
    return max(len(side) for row in rows for side in row.values())


def batches(rows: list[Row], most: int) -> list[list[Row]]:
    """Pairs of similar length, ``most`` tokens with padding, in multiples of 8, as in fairseq."""
    found: list[list[Row]] = [[]]
    for row in sorted(rows, key=lambda row: (len(row["input_ids"]), len(row["labels"]))):
        last = found[-1]
        if last and (len(last) + 1) * size([*last, row]) > most:
            kept = max(len(last) // 8 * 8, len(last) % 8)
            found[-1:] = [last[:kept], last[kept:]]
        found[-1].append(row)
    return found


def main() -> None:
    """Train, save, and translate the test set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("text", type=Path, help="folder of train.en, train.de and the others")
    parser.add_argument("data", type=Path, help="what prepare.sh made of it")
    parser.add_argument("run", type=Path, help="folder of the model")
    parser.add_argument("--attention", default="mtsa", choices=CONFIGS)
    parser.add_argument("--preset")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--updates", type=int, default=1500)
    args = parser.parse_args()
    options = read_object(args.data / "prepared.json")["options"]
    languages = options["source_lang"], options["target_lang"]
    entries = read_dictionary(args.data / "data-bin" / f"dict.{languages[0]}.txt")
    set_seed(args.seed)
    model = new_model(args.attention, args.preset, len(entries))
    model.config.source_lang, model.config.target_lang = languages
    tokenizer = tokenizer_of(args.data / "data-bin", entries, args.data / "spm.model", 1024)

    def dataset(folder: Path, part: str) -> list[list[Row]]:
        text = read_pairs(*(folder / f"{part}.{language}" for language in languages))
        pairs, _ = clean_pairs(text, Cleaning(**options["cleaning"]), training=part == "train")
        sides = [tokenizer(side)["input_ids"] for side in map(list, zip(*pairs, strict=True))]
        return batches([{"input_ids": s, "labels": t} for s, t in zip(*sides, strict=True)], 2048)

    pad = DataCollatorForSeq2Seq(tokenizer, model)
    settings = Seq2SeqTrainingArguments(
        args.run, seed=args.seed, max_steps=args.updates, learning_rate=0.005, adam_beta2=0.98,
        lr_scheduler_type="linear", warmup_steps=math.ceil(args.updates / 5), max_grad_norm=1.0,
        label_smoothing_factor=0.1 * len(entries) / (len(entries) - 1),  # fairseq's formula
        logging_steps=math.ceil(args.updates / 30), eval_strategy="steps", eval_steps=1 / 6,
        save_steps=1 / 6, save_total_limit=2, prediction_loss_only=True, report_to=[],
        per_device_train_batch_size=1, per_device_eval_batch_size=1,  # of the batches above
        remove_unused_columns=False, use_cpu=not torch.accelerator.is_available(),
    )  # fmt: skip
    train, valid = dataset(args.text, "train"), dataset(args.data / "raw", "valid")
    trainer = Seq2SeqTrainer(model, settings, lambda made: pad(made[0]), train, valid)
    trainer.train(resume_from_checkpoint=args.run.is_dir() and get_last_checkpoint(args.run))
    trainer.save_model()
    tokenizer.save_pretrained(args.run)
    shutil.copyfile(args.data / "spm.model", args.run / "spm.model")
    texts = read_lines(args.data / "raw" / f"test.{languages[0]}")
    write_lines(args.run / "test.hyp", [*Translator(model, tokenizer).stream(texts)])


if __name__ == "__main__":
    main()
