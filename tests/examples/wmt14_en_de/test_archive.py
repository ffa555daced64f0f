"""Reading out of archives, and the SGML of test sets."""

import tarfile

import pytest

from selfattn.errors import UserError
from tests.conftest import pack
from wmt14.archive import line_pairs, member_lines
from wmt14.sgm import segment_pairs, segments


def test_lines_end_at_newlines_only(tmp_path):
    archive = pack(tmp_path / "a.tgz", {"../../x/text.en": b"a\rb\n\xff\x85c\n\nlast"})
    assert list(member_lines(archive, "text.en")) == [b"a\rb", b"\xff\x85c", b"", b"last"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.tgz"], "something was unpacked"


def test_a_folder_of_the_same_name_is_no_file(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        folder = tarfile.TarInfo("text.en")
        folder.type = tarfile.DIRTYPE
        link = tarfile.TarInfo("z/text.en")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(folder)
        tar.addfile(link)
    with pytest.raises(UserError, match=r"a\.tar holds no file text\.en"):
        list(member_lines(tmp_path / "a.tar", "text.en"))


@pytest.mark.parametrize(("lines", "counts"), [((3, 7), "3 lines but b has 7"),
                                               ((7, 0), "7 lines but b has 0")])  # fmt: skip
def test_files_of_other_lengths_are_refused(tmp_path, lines, counts):
    archive = pack(tmp_path / "a.tgz", {n: b"x\n" * k for n, k in zip("ab", lines, strict=True)})
    with pytest.raises(UserError, match=counts):
        list(line_pairs(archive, "a", "b"))


def test_a_truncated_archive_is_refused(tmp_path):
    lines = b"".join(b"%d\n" % (i * i) for i in range(50_000))
    archive = pack(tmp_path / "a.tgz", {"text.en": lines})
    archive.write_bytes(archive.read_bytes()[:-9000])
    with pytest.raises(UserError, match=r"a\.tgz cannot be read as a whole archive"):
        list(member_lines(archive, "text.en"))
    with pytest.raises(UserError, match="there is no archive"):
        list(member_lines(tmp_path / "b.tgz", "text.en"))


SOURCE = """<srcset setid="newstest2014" srclang="any">
<doc sysid="ref" docid="one" genre="news" origlang="en">
<p>
<seg id="1">A &amp; B  &lt;b&gt; cost 5\u00a0&quot;Euro&quot;.</seg>
</p>
</doc>
<DOC docid="two"><p><seg id="1"> Two
lines </seg><seg id="2">Good-bye</seg></p></DOC>
</srcset>
"""


def lines(text):
    return text.encode().split(b"\n")


def test_segments_by_document_and_number():
    assert segments("s", lines(SOURCE)) == {
        ("one", "1"): 'A & B <b> cost 5 "Euro".',
        ("two", "1"): "Two lines",
        ("two", "2"): "Good-bye",
    }


def test_source_and_reference_belong_together():
    reference = SOURCE.replace("Good-bye", "Tschüss").replace("srcset", "refset")
    pairs = segment_pairs(("s", lines(SOURCE)), ("r", lines(reference)))
    assert pairs[2] == ("Good-bye", "Tschüss")
    for wrong in (reference.replace('"two"', '"zwei"'), reference.split('<seg id="2"')[0]):
        with pytest.raises(UserError, match=r"differ at document '(two|zwei)', segment [12]"):
            segment_pairs(("s", lines(SOURCE)), ("r", lines(wrong)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SOURCE.replace("Good-bye</seg>", "Good-bye"), "3 <seg> but 2 complete"),
        (SOURCE.replace('"2"', '"1"'), "segment 1 of document 'two' appears twice"),
        ("no markup", "0 <seg> but 0 complete"),
    ],
)
def test_bad_markup_is_refused(text, said):
    with pytest.raises(UserError, match=said):
        segments("file.sgm", lines(text))
