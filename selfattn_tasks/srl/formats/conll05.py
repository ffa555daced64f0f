"""The CoNLL-2005 data, built from its public archives and the user's own Penn Treebank.

The archives ``conll05st-release`` and ``conll05st-tests`` hold the propositions of all sections and
the words of the test sets; the words of the training and development sections come from the
Treebank.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.errors import UserError

from ...files import write_json
from ...folder import check_destination, new_folder
from ..propositions import Sentence
from . import conll
from .conll05_files import BROWN, PARTS, Member, Part, read_archives, spelling_of
from .rows import Block, blocks_of
from .treebank import read_section, section_folder

MARK = "counts.json"


def build(
    treebank: Path | None,
    archives: Sequence[Path],
    destination: Path,
    *,
    any_counts: bool = False,
    overwrite: bool = False,
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Write ``PART.conll`` and ``PART.props`` for train, dev, test.wsj and test.brown.

    Args:
        treebank: the Penn Treebank; not needed for sections whose words are in the archives.
        archives: ``conll05st-release.tar.gz`` and ``conll05st-tests.tar.gz``, or
            the folders they unpack to.
        destination: the folder to make; all or nothing.
        any_counts: accept other counts than the published ones.
        overwrite: replace a folder that was made before.
        show: called with a line of counts for each section.

    Returns:
        counts by part and section, as in ``counts.json``.

    Raises:
        UserError: naming everything that is missing, or the first section that does not fit.
    """
    given = [treebank, *archives]
    check_destination(destination, overwrite=overwrite, mark=MARK, inputs=given)
    members = read_archives(archives)
    folders = _find_all(treebank, members, archives)
    spelling = spelling_of(members)
    counts: dict[str, Any] = {}
    data: dict[str, list[Sentence]] = {}
    for part in PARTS:
        data[part.name], counts[part.name] = [], {}
        for section in part.sections:
            sentences = _section(part, section, members, folders, spelling)
            data[part.name] += sentences
            counts[part.name][section] = numbers = _count(sentences)
            show(
                f"{part.name:10} {section:>5}: {numbers[0]:>6,} sentences, "
                f"{numbers[1]:>7,} tokens, {numbers[2]:>6,} propositions"
            )
        counts[part.name]["total"] = total = _count(data[part.name])
        if not any_counts:
            _check_total(part, total)
    with new_folder(destination, overwrite=overwrite, mark=MARK) as folder:
        for name, sentences in data.items():
            conll.write_columns(folder / f"{name}.conll", sentences)
            conll.write_props(folder / f"{name}.props", sentences)
        write_json(folder / MARK, counts)
    return counts


def check_counts(folder: Path) -> None:
    """Refuse a folder that :func:`build` made of other data than the published.

    Raises:
        UserError: if a part has other counts than the published ones, or cannot be read.
    """
    for part in PARTS:
        _check_total(part, _count(conll.read(folder / f"{part.name}.conll")))


def _check_total(part: Part, total: tuple[int, int, int]) -> None:
    if total != part.published:
        raise UserError(
            f"{part.name} has {_say(total)}, but {_say(part.published)} are published: the "
            "Treebank or the archives are incomplete, or another version; --any-counts (of "
            "prepare.sh: ANY_COUNTS=1) accepts them"
        )


def _count(sentences: Sequence[Sentence]) -> tuple[int, int, int]:
    words = sum(len(sentence.words) for sentence in sentences)
    return len(sentences), words, sum(len(sentence.propositions) for sentence in sentences)


def _say(counts: tuple[int, int, int]) -> str:
    return f"{counts[0]:,} sentences, {counts[1]:,} tokens and {counts[2]:,} propositions"


def _find_all(
    treebank: Path | None, members: Mapping[str, Member], archives: Sequence[Path]
) -> dict[str, Path]:
    """The Treebank's folder of each section that needs it; one error names all that is missing."""
    if treebank is not None and not treebank.is_dir():
        raise UserError(f"--treebank: there is no folder {treebank}")
    lacking = [
        (section, kind, key)
        for part in PARTS
        for section in part.sections
        for kind in ("props", "words")
        if (key := part.key(section, kind)) not in members
    ]
    bare = [section for section, kind, _ in lacking if kind == "words" and section != BROWN]
    found = {section: section_folder(treebank, section) if treebank else None for section in bare}
    folders = {section: folder for section, folder in found.items() if folder}
    missing = []
    if no_section := [section for section in bare if section not in folders]:
        where = f"below {treebank}" if treebank else "because --treebank is not given"
        missing.append(
            f"words of the sections {', '.join(no_section)} (no folder of that name with .mrg "
            f"files {where})"
        )
    files = [f"{key}.gz" for section, kind, key in lacking if kind == "props" or section == BROWN]
    if files:
        missing.append(f"{', '.join(files)} (not in --archive {', '.join(map(str, archives))})")
    if missing:
        raise UserError("missing: " + "; ".join(missing))
    return folders


def _section(
    part: Part,
    section: str,
    members: Mapping[str, Member],
    folders: Mapping[str, Path],
    spelling: Callable[[str], str],
) -> list[Sentence]:
    props = members[part.key(section, "props")]
    if section in folders:
        source: Path = folders[section]
        words = [
            Block(block.path, block.line, [[spelling(word)] for (word,) in block.rows])
            for block in read_section(source)
        ]
    else:
        member = members[part.key(section, "words")]
        source, words = member.name, blocks_of(member.name, member.lines)
    return conll.pair(words, blocks_of(props.name, props.lines), (source, props.name))
