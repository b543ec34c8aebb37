"""One file over HTTP: every way a transfer can go wrong, and what is left of it then."""

from __future__ import annotations

import email.utils
import fcntl
import hashlib
import resource
import shutil
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from ds4.cli.models.download import Wanted, fetch, state
from ds4.cli.models.http import Web
from ds4.errors import DownloadError
from support.faulty_server import Served, Server, serving

BODY = bytes(range(256)) * 4096  # 1 MiB
SHA = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        server.paths["/f"] = Served(BODY)
        yield server


class Run:
    """One fetch into a part. waits: how long it slept; seen: what was reported."""

    def __init__(self, folder: Path) -> None:
        self.part = folder / "f.part"
        self.waits: list[float] = []
        self.seen: list[tuple[int, int | None]] = []

    def __call__(self, url: str, web: Web | None = None, **wanted: object) -> str:
        return fetch(
            web or Web(timeout=5),
            Wanted(url, **wanted),  # type: ignore[arg-type]
            self.part,
            lambda done, total: self.seen.append((done, total)),
            sleep=self.waits.append,
        )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_file_comes_whole_with_its_hash_and_its_progress(server: Server, run: Run) -> None:
    assert run(f"{server.base}/f") == SHA
    assert run.part.read_bytes() == BODY
    assert run.seen[0] == (0, len(BODY))
    assert run.seen[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in run.seen] == sorted(done for done, _ in run.seen)


def test_a_cut_connection_is_taken_up_where_it_broke(server: Server, run: Run) -> None:
    server.paths["/f"].cuts = [1000, 0, 70_000]
    assert run(f"{server.base}/f") == SHA
    assert run.part.read_bytes() == BODY
    assert server.ranges() == [None, "bytes=1000-", "bytes=1000-", "bytes=71000-"]
    assert {headers.get("If-Range") for _, headers in server.asked[1:]} == {'"one"'}
    assert run.waits == [1.0, 2.0, 1.0]


def test_a_cut_in_a_chunked_body_is_no_end(server: Server, run: Run) -> None:
    server.paths["/f"].length = None
    server.paths["/f"].cuts = [5000]
    assert run(f"{server.base}/f") == SHA
    assert run.part.read_bytes() == BODY


def test_what_a_run_left_is_gone_on_from_by_the_next(server: Server, run: Run) -> None:
    server.paths["/f"].cuts = [300_000] + [0] * 6
    with pytest.raises(DownloadError, match="gave up after 6 attempts"):
        run(f"{server.base}/f")
    assert run.part.stat().st_size == 300_000
    assert run(f"{server.base}/f") == SHA
    assert server.ranges()[-1] == "bytes=300000-"


def test_an_interrupted_run_keeps_its_bytes(server: Server, run: Run) -> None:
    def stop(done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(Web(), Wanted(f"{server.base}/f"), run.part, stop)
    kept = run.part.stat().st_size
    assert 0 < kept < len(BODY)
    assert run(f"{server.base}/f") == SHA
    assert server.ranges() == [None, f"bytes={kept}-"]


def test_another_file_by_now_is_fetched_from_its_start(server: Server, run: Run) -> None:
    server.paths["/f"].cuts = [300_000] + [0] * 6
    with pytest.raises(DownloadError):
        run(f"{server.base}/f")
    newer = BODY[::-1]
    server.paths["/f"] = Served(newer, etag='"two"')
    assert run(f"{server.base}/f") == hashlib.sha256(newer).hexdigest()
    assert run.part.read_bytes() == newer


@pytest.mark.parametrize("etag", ["", 'W/"weak"'])
def test_a_part_that_nothing_vouches_for_is_not_gone_on_from(server: Server, run: Run, etag: str) -> None:
    server.paths["/f"].etag = etag
    server.paths["/f"].cuts = [300_000]
    assert run(f"{server.base}/f") == SHA
    assert server.ranges() == [None, None]


def test_a_known_hash_vouches_for_a_part(server: Server, run: Run) -> None:
    server.paths["/f"].etag = ""
    server.paths["/f"].cuts = [300_000]
    assert run(f"{server.base}/f", sha256=SHA) == SHA
    assert server.ranges() == [None, "bytes=300000-"]


def test_a_part_of_another_url_is_not_gone_on_from(server: Server, run: Run) -> None:
    server.paths["/f"].cuts = [300_000] + [0] * 6
    with pytest.raises(DownloadError):
        run(f"{server.base}/f")
    server.paths["/g"] = Served(BODY[::-1])
    assert run(f"{server.base}/g") == hashlib.sha256(BODY[::-1]).hexdigest()


def test_a_server_without_ranges_sends_all_of_it_again(server: Server, run: Run) -> None:
    server.paths["/f"].ranges = False
    server.paths["/f"].cuts = [300_000]
    assert run(f"{server.base}/f") == SHA
    assert run.part.read_bytes() == BODY


def test_a_range_that_was_not_asked_for_is_not_taken(server: Server, run: Run) -> None:
    server.paths["/f"].cuts = [1000]
    server.paths["/f"].content_range = f"bytes 0-{len(BODY) - 1}/{len(BODY)}"
    assert run(f"{server.base}/f") == SHA
    assert run.part.read_bytes() == BODY


def test_a_whole_part_needs_no_server(server: Server, run: Run) -> None:
    run(f"{server.base}/f")
    asked = len(server.asked)
    assert run(f"{server.base}/f") == SHA
    assert len(server.asked) == asked


def test_past_the_end_means_that_all_is_there_or_that_the_file_is_another(server: Server, run: Run) -> None:
    run.part.write_bytes(BODY)
    assert run(f"{server.base}/f", sha256=SHA) == SHA
    assert server.ranges() == [f"bytes={len(BODY)}-"]
    run.part.write_bytes(BODY + b"more")
    state(run.part).unlink(missing_ok=True)
    assert run(f"{server.base}/f", sha256=SHA) == SHA
    assert server.ranges()[1:] == [f"bytes={len(BODY) + 4}-", None]


def test_a_wrong_hash_is_told_and_nothing_of_it_kept(server: Server, run: Run) -> None:
    with pytest.raises(DownloadError, match="SHA-256 differs") as caught:
        run(f"{server.base}/f", sha256="0" * 64)
    assert (caught.value.expected, caught.value.found) == ("0" * 64, SHA)
    assert not run.part.exists()
    assert not state(run.part).exists()


def test_a_wrong_length_is_told_before_the_bytes_come(server: Server, run: Run) -> None:
    with pytest.raises(DownloadError, match="wrong length") as caught:
        run(f"{server.base}/f", nbytes=5)
    assert (caught.value.expected, caught.value.found) == (5, len(BODY))
    assert run.seen == []


def test_a_length_that_the_bytes_never_reach_is_given_up(server: Server, run: Run) -> None:
    server.paths["/f"].length = 10
    with pytest.raises(DownloadError, match="gave up"):
        run(f"{server.base}/f")


def test_a_chunked_body_of_the_wrong_length_is_told(server: Server, run: Run) -> None:
    server.paths["/f"].length = None
    with pytest.raises(DownloadError, match="wrong length"):
        run(f"{server.base}/f", nbytes=1000)


def test_a_page_in_place_of_a_file_is_refused_at_its_first_bytes(server: Server, run: Run) -> None:
    server.paths["/f"].body = b"<html>Please log in</html>"
    with pytest.raises(DownloadError, match="starts with b'GGUF'"):
        run(f"{server.base}/f", magic=b"GGUF")
    assert not run.part.exists()


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(server: Server, run: Run, status: int) -> None:
    server.paths["/f"].statuses = [status, status]
    assert run(f"{server.base}/f") == SHA
    assert run.waits == [1.0, 2.0]


IN_AN_HOUR = email.utils.format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("asked", "wait"),
    [("7", 7.0), ("3600", 60.0), (IN_AN_HOUR, 60.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0), ("soon", 1.0)],
)
def test_a_server_that_names_a_wait_gets_it_up_to_a_minute(
    server: Server, run: Run, status: int, asked: str, wait: float
) -> None:
    server.paths["/f"].statuses = [status]
    server.paths["/f"].headers = {"Retry-After": asked}
    assert run(f"{server.base}/f") == SHA
    assert run.waits == [wait]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_what_will_not_pass_is_not_tried_again(server: Server, run: Run, status: int) -> None:
    server.paths["/f"].statuses = [status]
    with pytest.raises(DownloadError, match=f"answered {status}"):
        run(f"{server.base}/f")
    assert len(server.asked) == 1


def test_a_server_that_falls_silent_is_given_up(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: [listener.accept() for _ in range(6)], daemon=True).start()
        with pytest.raises(DownloadError, match="gave up"):
            run(f"http://127.0.0.1:{listener.getsockname()[1]}/f", Web(timeout=0.05))


def test_a_closed_port_is_given_up(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(DownloadError, match="gave up after 6 attempts: .*refused"):
        run(f"http://127.0.0.1:{port}/f")


def test_a_redirect_on_the_same_host_is_followed_with_the_credentials(server: Server, run: Run) -> None:
    server.paths["/r"] = Served(redirect=f"{server.base}/f")
    assert run(f"{server.base}/r", Web({server.host: "Bearer secret"})) == SHA
    assert [headers.get("Authorization") for _, headers in server.asked] == ["Bearer secret"] * 2


def test_a_redirect_to_another_host_without_encryption_is_refused(server: Server, run: Run) -> None:
    with serving() as other:
        other.paths["/f"] = Served(BODY)
        server.paths["/r"] = Served(redirect=f"{other.base}/f")
        with pytest.raises(DownloadError, match="without encryption"):
            run(f"{server.base}/r", Web({server.host: "Bearer secret"}))
        assert other.asked == []


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/f"])
def test_a_redirect_out_of_the_web_is_refused(server: Server, run: Run, target: str) -> None:
    server.paths["/r"] = Served(redirect=target)
    with pytest.raises(DownloadError):
        run(f"{server.base}/r")


def test_redirects_in_a_circle_end(server: Server, run: Run) -> None:
    server.paths["/r"] = Served(redirect=f"{server.base}/r")
    with pytest.raises(DownloadError):
        run(f"{server.base}/r")
    assert len(server.asked) < 100


def test_a_full_disk_is_told_before_the_bytes_come(server: Server, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DownloadError, match="not enough space"):
        run(f"{server.base}/f")
    assert run.seen == []


def test_a_disk_that_fills_up_on_the_way_is_told_and_the_next_run_goes_on(server: Server, run: Run) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)  # no file may be longer, as on a disk that is full
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        with pytest.raises(DownloadError, match="cannot be written: File too large; what is there is kept"):
            run(f"{server.base}/f")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert run.part.stat().st_size == 300_000
    assert len(server.asked) == 1
    assert run(f"{server.base}/f") == SHA
    assert server.ranges() == [None, "bytes=300000-"]


def test_two_processes_do_not_write_one_part(server: Server, run: Run) -> None:
    with run.part.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DownloadError, match="another process"):
            run(f"{server.base}/f")


def test_a_compressed_answer_is_refused(server: Server, run: Run) -> None:
    server.paths["/f"].headers = {"Content-Encoding": "gzip"}
    with pytest.raises(DownloadError, match="compressed"):
        run(f"{server.base}/f")
    assert server.asked[0][1]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1}', '{"url": "U", "validator": 3, "total": null}'])
def test_a_damaged_note_beside_a_part_is_no_note(server: Server, run: Run, text: str) -> None:
    run.part.write_bytes(b"rubbish")
    state(run.part).write_text(text.replace("U", f"{server.base}/f"))
    assert run(f"{server.base}/f") == SHA
    assert run.part.read_bytes() == BODY
