"""Downloads from a small server of our own, which can be made to misbehave."""

import hashlib
import http.server
import random
import threading

import pytest

from selfattn.errors import UserError
from wmt14 import download
from wmt14.download import fetch

CONTENT = random.Random(1).randbytes(300_000)
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Server(http.server.BaseHTTPRequestHandler):
    """Sends CONTENT; ``cut`` bytes at most in an answer, from the start unless ``ranges``."""

    cut, ranges, asked = 10**9, True, []

    def do_GET(self):
        if self.path != "/file.tgz":
            self.send_error(404)
            return
        wanted = self.headers.get("Range")
        type(self).asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : start + self.cut])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download.time, "sleep", lambda seconds: None)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    handler = type("Handler", (Server,), {"asked": []})
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    handler.url = f"http://127.0.0.1:{running.server_port}/file.tgz"
    yield handler
    running.shutdown()
    running.server_close()


def get(url, path):
    fetch(url, path, size=len(CONTENT), digest=DIGEST, show=lambda line: None)


def test_a_partial_download_goes_on(server, tmp_path):
    path = tmp_path / "new" / "file.tgz"
    path.parent.mkdir()
    path.with_name("file.tgz.part").write_bytes(CONTENT[:123_456])
    get(server.url, path)
    assert path.read_bytes() == CONTENT
    assert server.asked == ["bytes=123456-"]
    assert [p.name for p in path.parent.iterdir()] == ["file.tgz"]


def test_a_link_to_where_it_shall_lie_stays(server, tmp_path):
    (tmp_path / "away").mkdir()
    (tmp_path / "file.tgz").symlink_to("away/file.tgz")
    fetch(server.url, tmp_path / "file.tgz", size=len(CONTENT), digest=DIGEST, show=print)
    assert (tmp_path / "file.tgz").is_symlink()
    assert (tmp_path / "away" / "file.tgz").read_bytes() == CONTENT
    assert len([*tmp_path.rglob("*")]) == 3, "the partial file lay elsewhere"


def test_a_server_that_hangs_up_is_asked_again(server, tmp_path):
    server.cut = 100_000
    get(server.url, tmp_path / "file.tgz")
    assert (tmp_path / "file.tgz").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]


def test_a_server_that_cannot_resume_sends_all(server, tmp_path):
    server.ranges = False
    (tmp_path / "file.tgz.part").write_bytes(b"other bytes, which must not stay in front")
    get(server.url, tmp_path / "file.tgz")
    assert (tmp_path / "file.tgz").read_bytes() == CONTENT


def test_a_server_that_stops_for_good_is_one_sentence(server, tmp_path):
    (tmp_path / "file.tgz.part").write_bytes(CONTENT[:1000])
    server.cut = 0
    with pytest.raises(UserError, match=r"1,000 of 300,000 bytes are kept, and the same command"):
        get(server.url, tmp_path / "file.tgz")
    assert len(server.asked) == download.ATTEMPTS
    assert (tmp_path / "file.tgz.part").read_bytes() == CONTENT[:1000]


def test_no_network_and_no_file_are_one_sentence(server, tmp_path):
    with pytest.raises(UserError, match=r"cannot download .*nothing\.tgz: the server answers 404"):
        get(server.url.replace("file", "nothing"), tmp_path / "file.tgz")
    with pytest.raises(UserError, match=r"cannot download http://127.0.0.1:9/x: .*refused"):
        get("http://127.0.0.1:9/x", tmp_path / "file.tgz")
    with pytest.raises(UserError, match=r"cannot download file:///.*No such file"):
        get((tmp_path / "absent").as_uri(), tmp_path / "file.tgz")
    with pytest.raises(UserError, match="cannot download mirror/x: unknown url type: 'mirror/x'"):
        get("mirror/x", tmp_path / "file.tgz")


def test_wrong_bytes_are_thrown_away(server, tmp_path):
    (tmp_path / "file.tgz.part").write_bytes(b"\0" * 200_000)
    with pytest.raises(UserError, match="has the sha256 [0-9a-f]{64}, but must have"):
        get(server.url, tmp_path / "file.tgz")
    assert list(tmp_path.iterdir()) == []
    get(server.url, tmp_path / "file.tgz")
