"""Train a classifier of sentences on files with lines of label<TAB>text."""

import argparse
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader

from selfattn.layers import Source2Token
from selfattn.masks import padding_from_lengths
from selfattn.models import Encoder, EncoderLayer


class Classifier(nn.Module):
    """Embeddings, torch's encoder with another attention, a pool, classes."""

    def __init__(self, words: int, labels: int, width: int, attention: str) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = EncoderLayer(width, 4, 4 * width, batch_first=True, attention=attention)
        self.encoder = Encoder(layer, num_layers=2)
        self.pool = Source2Token(width)
        self.classes = nn.Linear(width, labels)

    def forward(self, words: Tensor, padding: Tensor) -> Tensor:
        """Words and where padding is, both ``(B, T)`` -> logits ``(B, labels)``."""
        y = self.encoder(self.embed(words), src_key_padding_mask=padding)
        logits: Tensor = self.classes(self.pool(y, padding))
        return logits


def read(path: Path) -> list[list[str]]:
    """Label and text of each line."""
    lines = [line.split("\t", 1) for line in path.read_text("utf-8-sig").split("\n") if line]
    if not lines or any(len(line) != 2 for line in lines):
        raise SystemExit(f"{path}: each line must hold a label, a tab and a text")
    return lines


def main() -> None:
    """Train, and print the accuracy on the second file after each epoch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("valid", type=Path)
    parser.add_argument("--save", type=Path, help="where the weights go")
    parser.add_argument("--attention", default="mtsa")
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    if args.save and not args.save.parent.is_dir():
        raise SystemExit(f"--save: there is no folder {args.save.parent}")
    accelerator = Accelerator(cpu=not torch.accelerator.is_available())
    set_seed(1)
    train, valid = read(args.train), read(args.valid)
    labels = sorted({label for label, _ in train + valid})
    words = sorted({word for _, text in train for word in text.split()})
    number = {word: i for i, word in enumerate(words, 1)}  # 0: a word that training has not seen

    def collate(lines: list[list[str]]) -> tuple[Tensor, Tensor, Tensor]:
        rows = [[number.get(word, 0) for word in text.split()] for _, text in lines]
        padding = padding_from_lengths([len(row) for row in rows])
        batch = torch.zeros(padding.shape, dtype=torch.long)
        batch[~padding] = torch.tensor(sum(rows, []), dtype=torch.long)
        return batch, padding, torch.tensor([labels.index(label) for label, _ in lines])

    model: nn.Module = Classifier(len(words) + 1, len(labels), 128, args.attention)
    loaders: list[Any] = [
        DataLoader(lines, 32, lines is train, collate_fn=collate)  # type: ignore[arg-type]
        for lines in (train, valid)
    ]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    model, optimizer, *loaders = accelerator.prepare(model, optimizer, *loaders)
    for epoch in range(1, args.epochs + 1):
        model.train()
        for batch, padding, classes in loaders[0]:
            loss = nn.functional.cross_entropy(model(batch, padding), classes)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        right = []
        with torch.no_grad():
            for batch, padding, classes in loaders[1]:
                hits = model.eval()(batch, padding).argmax(-1) == classes
                right += accelerator.gather_for_metrics(hits).tolist()
        accelerator.print(f"epoch {epoch}: accuracy {sum(right) / len(right):.3f}")
    if args.save:
        accelerator.save(accelerator.get_state_dict(model), args.save)


if __name__ == "__main__":
    main()
