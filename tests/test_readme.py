"""What the documents say is there, is there, and the code in them runs."""

import re
from pathlib import Path

import pytest
import yaml

from selfattn.config import CONFIGS
from selfattn.layers import ATTENTIONS

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = ("*.md", "docs/**/*.md", "selfattn*/**/*.md", "examples/**/*.md", "user_dir/*.md")
DOCUMENTS = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))
# In the order in which their commands follow from one another.
PAGES = ["docs/installation.md", "docs/attentions.md", "docs/pytorch.md"]
PAGES += ["docs/translation.md", "docs/srl.md", "docs/sentences.md", "docs/export.md"]
PAGES += ["docs/huggingface.md", "docs/comparison.md", "docs/inspection.md", "README.md"]
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(#[^)\s]+)?\)")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(path):
    """The anchors of a document's headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    kept = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {"#" + re.sub(r"[\s-]+", "-", heading) for heading in kept}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_named_files_exist(document):
    text = document.read_text(encoding="utf-8")
    missing = []
    for target, anchor in LINK.findall(text):
        path = document.parent / target if target else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            missing.append(target + anchor)
    named = re.findall(
        r"(?<![\w/])(?![\w./-]*\*)((?:scripts|examples|plugin|tests|benchmarks|docs|selfattn\w*)/[\w./-]+\.\w+)",
        text,
    )
    missing += [n for n in named if not (ROOT / n).exists() and not (document.parent / n).exists()]
    assert not missing


def blocks(language="", pages=PAGES):
    """The code blocks of some pages in one language, in their order."""
    text = "\n".join(read(page) for page in pages)
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


def test_the_readme_is_one_screen():
    assert len(read("README.md")) <= 6000


@pytest.mark.parametrize(
    "page", ["README.md", "distributions/README.md", "docs/attentions.md", "docs/pytorch.md"]
)
def test_the_python_examples_run(page):
    scope: dict[str, object] = {}
    exec(compile("\n".join(blocks("python", [page])), page, "exec"), scope)
    assert scope["y"].shape == (2, 7, 512)
    if page == "docs/attentions.md":
        assert scope["h"].shape == (2, 8, 7, 64)


def test_the_figures_of_the_readme_are_in_the_reports_that_it_names():
    table = re.search(r"^\|.*?\n\n", read("README.md"), re.DOTALL | re.MULTILINE)[0]
    rows = [line.split("|")[1:-1] for line in table.splitlines()[2:-1]]
    assert len(rows) == 8
    report = ""
    for what, figures, proof in rows:
        if named := re.search(r"\]\((.*)\)", proof):
            report = read(named[1])
        # Figures of a result only: not the 95 of "95 %", nor numbers of tokens.
        numbers = re.findall(r"\d+\.\d+", figures)
        assert numbers, what
        for number in numbers:
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", report), (what, number)


def test_every_attention_and_preset_is_in_the_tables():
    tables = read("docs/attentions.md")
    for name in ATTENTIONS:
        assert f"\n| `{name}` |" in tables
        for preset in CONFIGS[name].presets:
            # A mechanism's name stands in the row of its first preset alone.
            rows = re.search(rf"^\| `{name}` \| `.*\n(?:\| \|.*\n)*", tables, re.MULTILINE)
            (row,) = (line for line in rows[0].splitlines() if f"| `{preset}` |" in line)
            assert ("padding is set to 0" in row) == CONFIGS[name].make(preset).zero_padding


def test_every_architecture_is_in_the_table():
    source = read("plugin/models/transformer.py")
    ends = re.findall(r'^    "(\w*)": ', source, re.MULTILINE)
    assert len(ends) == 5
    assert all(f"| `transformer_mtsa{end}` |" in read("docs/translation.md") for end in ends)


def test_every_departure_from_a_paper_is_on_the_page():
    """Each file with a `Differs:` entry, and no other one, is linked from docs/fidelity.md."""
    linked = {target.removeprefix("../") for target, _ in LINK.findall(read("docs/fidelity.md"))}
    floors = ["selfattn", "selfattn_tasks", "plugin", "selfattn_experiments"]
    differing = {
        path.relative_to(ROOT).as_posix()
        for floor in (*floors, "benchmarks", "examples")
        for path in (ROOT / floor).rglob("*.py")
        if "Differs:" in path.read_text(encoding="utf-8")
    }
    assert {name for name in linked if name.endswith(".py")} == differing


def test_every_fix_of_fairseq_is_on_the_page():
    page, fixes = read("docs/fairseq.md"), [*(ROOT / "plugin" / "compat").glob("[!_]*.py")]
    assert fixes
    for path in fixes:
        assert f"| [{path.stem}](../plugin/compat/{path.name}) |" in page, path.stem


def test_each_of_the_five_questions_is_answered_by_at_most_two_files():
    answers = read("docs/extending.md").split("## Five questions\n")[1].strip().split("\n\n")
    assert len(answers) == 5
    for answer in answers:
        files = {target for target, _ in LINK.findall(answer)}
        assert 1 <= len(files) <= 2, answer
        sources = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in files)
        text = answer.partition("?**")[2]
        named = re.findall(r"`((?:[A-Z]\w*\.)?[a-z_]+|[A-Z]\w+)`", text)
        for name in (part for whole in named for part in whole.split(".")):
            assert re.search(rf"(def|class) {name}\b", sources), name


def test_makefile_has_the_commands_of_the_documents():
    makefile = read("Makefile")
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    targets = set(re.findall(r"(?:`|^)make (\w+)", text, re.MULTILINE))
    assert {"env", "demo", "test", "check", "docs"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_page_is_in_the_navigation_of_the_site():
    def leaves(entry):
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry
        return [leaf for value in values for leaf in leaves(value)]

    shown = leaves(yaml.safe_load(read("mkdocs.yml"))["nav"])
    there = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/tutorials/*.ipynb")]
    pages = {path.relative_to(ROOT / "docs").with_suffix(".md").as_posix() for path in there}
    assert pages == {name for name in shown if not name.startswith(("index", "repository/"))}
    others = [name.removeprefix("repository/") for name in shown if name.startswith("repository/")]
    assert "SECURITY.md" in others
    assert all((ROOT / name).is_file() for name in others)


def test_the_site_builds_without_a_warning(tmp_path, run_cli):
    pytest.importorskip("mkdocstrings")  # make env and make test install it
    flags = ["--strict", "--site-dir", str(tmp_path)]
    run_cli(["-m", "mkdocs", "build", *flags], fresh=True).ok()
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|link|img|iframe)[^>]*(?:src|href)="?(\w+:)?//', page.read_text("utf-8")
        )
        assert not fetched, page
    reference = "".join(path.read_text("utf-8") for path in (tmp_path / "api").glob("*.html"))
    names = ("layers.MTSA", "ops.mtsa.mtsa", "masks.PositionalMask", "config.MTSAConfig")
    names += ("models.EncoderLayer", "hf.SelfattnConfig")
    roles = ("SRL.__call__", "Document.propositions", "TextSpan")
    for name in (*(f".{name}" for name in names), *(f"_tasks.srl.{name}" for name in roles)):
        assert f'id="selfattn{name}"' in reference, name
