"""sources.json: the real one is well-formed, a wrong one is one sentence."""

import hashlib
import json

import pytest

from selfattn.errors import UserError
from wmt14.sources import find_archives, read_sources

DEV = "sha256:7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7"


@pytest.fixture
def real(repo_root):
    return repo_root / "examples" / "wmt14_en_de" / "sources.json"


def test_the_real_one(real):
    sources = read_sources(real)
    parts = [corpus.part for corpus in sources.corpora]
    assert parts == ["train"] * 3 + ["valid", "test"]
    assert {corpus.archive for corpus in sources.corpora} == set(sources.archives)
    for name, archive in sources.archives.items():
        assert archive.url.endswith(f"/{name}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"sha256:7a7d', '"sha1:7a7d', "the digest of dev.tgz is 'sha1:7a7d"),
        (DEV, f"md5:{DEV[-32:]}", "must be sha256: .*`sha256sum dev.tgz` prints"),
        ('"part": "valid"', '"part": "train"', "has no corpus for valid"),
        ('"part": "test"', '"part": "tset"', "the part of newstest2014 is 'tset'"),
        ('"archive": "dev.tgz"', '"archive": "dev"', "newstest2013 is in no listed archive"),
        ('"source"', '"sources"', "an entry is missing or unknown"),
        ('"corpora"', '"corpus"', "an entry is missing or unknown"),
        ('"part": "test"', '"part": ["test"]', r"part of newstest2014 is \['test'\], .* be str"),
        ('"pairs": 3000', '"pairs": "3000"', r"pairs of newstest2013 is '3000', .* int \| None"),
        ("}", "", "is not JSON"),
    ],
)
def test_a_wrong_one(real, tmp_path, old, new, said):
    (tmp_path / "sources.json").write_text(real.read_text().replace(old, new))
    with pytest.raises(UserError, match=said):
        read_sources(tmp_path / "sources.json")


def test_a_download_that_was_damaged_later(real, tmp_path):
    content = json.loads(real.read_text())
    content["corpora"] = [corpus | {"archive": "dev.tgz"} for corpus in content["corpora"]]
    content["archives"]["dev.tgz"]["digest"] = f"sha256:{hashlib.sha256(b'whole').hexdigest()}"
    (tmp_path / "sources.json").write_text(json.dumps(content))
    sources = read_sources(tmp_path / "sources.json")
    said = []

    def find():
        return find_archives(
            sources,
            archives=None,
            downloads=tmp_path,
            mirror="http://127.0.0.1:9",
            show=said.append,
        )

    (tmp_path / "dev.tgz").write_bytes(b"whole")
    assert find() == {"dev.tgz": tmp_path / "dev.tgz"}
    assert said == ["archive dev.tgz: 5 bytes"]
    (tmp_path / "dev.tgz").write_bytes(b"half")
    with pytest.raises(UserError, match="but must have .* the same command downloads it again"):
        find()
