"""Files outside docs/ in the site: README is its home, and each file that a page links has a page.

The documents link files as a reader of the repository needs it, by relative paths, so that no
address of a repository stands in them. Here the links turn to copies under ``repository/``. A
notebook becomes a page with its pictures.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".json": "json", ".sh": "bash", ".yaml": "yaml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add README and every file that can be reached from it and from docs/."""
    pending = ["README.md", *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    seen = set(pending)
    while pending:
        path = pending.pop()
        if not path.startswith("docs/"):
            files.append(_file(path, config))
        if path.endswith(".md"):
            links = LINK.findall((ROOT / path).read_text(encoding="utf-8"))
            reached = {_target(path, link) for link in links} - seen
            reached = {name for name in reached if (ROOT / name).is_file()}
            seen |= reached
            pending += sorted(reached)
    for path in sorted(ROOT.glob("docs/tutorials/*.ipynb")):
        for file in _notebook(path, config):
            files.append(file)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn a page's links to other files of the repository to their places in the site."""
    uri = page.file.src_uri
    path = {"index.md": "README.md"}.get(uri, uri)
    if uri.startswith("repository/"):
        path = uri.removeprefix("repository/")
        if not (ROOT / path).is_file():  # the page of a source file
            return markdown
    elif uri != "index.md":
        path = f"docs/{uri}"
    here = posixpath.dirname(uri)
    return LINK.sub(lambda link: posixpath.relpath(_place(_target(path, link[1])), here), markdown)


def _target(path: str, link: str) -> str:
    """What a link in the file *path* means, relative to the root; a folder means its README."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    readme = f"{target}/README.md"
    return readme if (ROOT / readme).is_file() else target


def _place(path: str) -> str:
    """Where a file of the repository stands in the site."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/").replace(".ipynb", ".md")
    kept = path.endswith((".md", ".png", ".svg"))
    return f"repository/{path}" if kept else f"repository/{path}.md"


def _notebook(path: Path, config: MkDocsConfig) -> Iterator[File]:
    """The pictures of an executed notebook, and its page."""
    parts: list[str] = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```{'bash' if source[0] == '!' else 'python'}\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{len(parts)}.png"
                picture = base64.b64decode(data["image/png"])
                yield File.generated(config, f"tutorials/{name}", content=picture)
                parts.append(f"![]({name})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                text = "".join(output.get("text") or data["text/plain"]).rstrip()
                parts.append(f"```text\n{text}\n```")
    yield File.generated(config, f"tutorials/{path.stem}.md", content="\n\n".join(parts))


def _file(path: str, config: MkDocsConfig) -> File:
    """The page of a file, or the picture itself."""
    place = _place(path)
    if not place.endswith(".md") or path.endswith(".md"):
        return File.generated(config, place, abs_src_path=str(ROOT / path))
    text = (ROOT / path).read_text(encoding="utf-8")
    language = LANGUAGES.get(Path(path).suffix, "text")
    name = path.replace("_", r"\_")
    content = f"---\nsearch: {{exclude: true}}\n---\n# {name}\n\n`````{language}\n{text}`````\n"
    return File.generated(config, place, content=content)
