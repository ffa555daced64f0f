"""What the documents say is there, is there, and the code in README runs."""

import re
from pathlib import Path

import pytest

from selfattn.config import CONFIGS
from selfattn.layers import ATTENTIONS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "selfattn*/**/*.md", "examples/**/*.md", "user_dir/*.md")
    for path in ROOT.glob(pattern)
)
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_named_files_exist(document):
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text)
    missing = [t for t in targets if not (document.parent / t).exists()]
    named = re.findall(
        r"(?<![\w/])((?:scripts|examples|plugin|tests|benchmarks|selfattn\w*)/[\w./-]+\.\w+)", text
    )
    missing += [n for n in named if not (ROOT / n).exists() and not (document.parent / n).exists()]
    assert not missing


def blocks(language=""):
    """The code blocks of README in one language, in their order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


def test_the_first_python_example_runs():
    scope: dict[str, object] = {}
    exec(compile(blocks("python")[0], "README.md", "exec"), scope)
    assert scope["y"].shape == (2, 7, 512)
    assert scope["h"].shape == (2, 8, 7, 64)


def test_every_attention_and_preset_is_in_the_tables():
    for name in ATTENTIONS:
        assert f"| `{name}` |" in README
        for preset in CONFIGS[name].presets:
            assert f"| `{preset}` |" in README


def test_every_architecture_is_in_the_table():
    source = (ROOT / "plugin/models/transformer.py").read_text(encoding="utf-8")
    ends = re.findall(r'^    "(\w*)": ', source, re.MULTILINE)
    assert len(ends) == 5
    assert all(f"| `transformer_mtsa{end}` |" in README for end in ends)


def test_makefile_has_the_commands_of_the_readme():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:`|^)make (\w+)", README, re.MULTILINE))
    assert {"env", "test"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
