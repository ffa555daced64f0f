"""The starter, as a researcher uses it: copied under another name, trained, asked to translate."""

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fairseq

SMALL = """
    --cpu --num-workers 0 --no-progress-bar --max-update 2 --max-tokens 200
    --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16
    --encoder-ffn-embed-dim 16 --decoder-ffn-embed-dim 16
    --encoder-attention-heads 2 --decoder-attention-heads 2
""".split()


@pytest.fixture(scope="module")
def data(run_cli, tmp_path_factory) -> Path:
    """Forty pairs of nonsense, binarised."""
    folder = tmp_path_factory.mktemp("starter")
    generator = random.Random(1)
    for language in ("src", "tgt"):
        lines = [
            " ".join(generator.choices("abcdef", k=generator.randint(2, 6))) for _ in range(40)
        ]
        (folder / f"text.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    prefixes = [f"--{split}pref={folder / 'text'}" for split in ("train", "valid", "test")]
    flags = ["--source-lang=src", "--target-lang=tgt", "--destdir", folder / "data-bin"]
    run_cli(["-m", "fairseq_cli.preprocess", *flags, *prefixes]).ok()
    return folder / "data-bin"


@pytest.fixture(scope="module")
def copied(repo_root, tmp_path_factory) -> Path:
    """The starter under another name, far from the clone."""
    folder = tmp_path_factory.mktemp("elsewhere") / "my_exp"
    shutil.copytree(repo_root / "user_dir", folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_copy_train_and_translate(run_cli, repo_root, data, copied, tmp_path):
    trained = run_cli(
        [copied / "train.sh", data, tmp_path / "run", *SMALL],
        python="bash", cwd=tmp_path, PYTHONPATH=str(repo_root), PYTHON=sys.executable,
    ).ok()  # fmt: skip
    assert "MyTransformer" in trained.stdout + trained.stderr
    checkpoint = tmp_path / "run" / "checkpoint_best.pt"
    flags = ["--user-dir", copied, "--path", checkpoint, "--cpu", "--beam", "2"]
    done = run_cli(
        ["-m", "fairseq_cli.generate", data, *flags], cwd=tmp_path, PYTHONPATH=str(repo_root)
    ).ok()
    assert sum(line.startswith("H-") for line in done.stdout.splitlines()) == 40


def test_the_plugin_beside_it_is_taken_without_installation(run_cli, repo_root, tmp_path):
    code = """
import argparse, sys
from fairseq import models, utils
utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
print(sys.modules["plugin"].__file__)
print(*models.ARCH_MODEL_REGISTRY)
"""
    done = run_cli(["-c", code, repo_root / "user_dir"], cwd=tmp_path, fresh=False).ok()
    loaded, archs = done.stdout.splitlines()
    assert loaded == str(repo_root / "plugin" / "__init__.py")
    assert {"my_transformer", "transformer_mtsa_tiny"} <= set(archs.split())


def test_without_the_project_it_says_what_to_do(run_cli, copied, tmp_path):
    code = "import importlib.util as u; u.find_spec = lambda name: None; import my_exp"
    done = run_cli(["-c", code], cwd=tmp_path, PYTHONPATH=str(copied.parent))
    assert done.returncode == 1
    assert "pip install -e CLONE" in done.stderr.splitlines()[-1]


def test_its_attention_keeps_the_contract(run_cli, repo_root, copied, tmp_path):
    """Padding changes no real token, and every weight learns."""
    code = """
import torch
from my_exp.models.my_transformer import MyAttention

torch.manual_seed(1)
layer = MyAttention(8, 2).double()
torch.nn.init.normal_(layer.nearness)
x = torch.randn(2, 5, 8, dtype=torch.double)
y = layer(x)
y.square().sum().backward()
assert all(p.grad.abs().sum() > 0 for p in layer.parameters())
padded = torch.cat([torch.full((2, 3, 8), 9.0, dtype=torch.double), x], 1)
mask = torch.arange(8).lt(3).expand(2, 8)
torch.testing.assert_close(layer(padded, mask)[:, 3:], y)
"""
    path = f"{copied.parent}{os.pathsep}{repo_root}"
    run_cli(["-c", code], cwd=tmp_path, fresh=False, PYTHONPATH=path).ok()
