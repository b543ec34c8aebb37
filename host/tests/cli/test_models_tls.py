"""Fetching over TLS: whom it trusts, and where a token goes."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from ds4.cli.models.download import Wanted, fetch
from ds4.cli.models.http import Web
from ds4.errors import DownloadError
from support.faulty_server import Served, Server, serving

BODY = bytes(range(256)) * 4096
SHA = hashlib.sha256(BODY).hexdigest()
SECRET = "Bearer secret"
WHOLE_DAYS = timedelta(days=1)

Serve = Callable[..., Server]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def trusted(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file that names the authority."""
    path = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


@pytest.fixture
def serve(authority: trustme.CA) -> Iterator[Serve]:
    """Starts a server whose certificate is for a host, by default its own, until a date."""
    with ExitStack() as open_:

        def start(host: str = "127.0.0.1", until: datetime | None = None) -> Server:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert(host, not_after=until).configure_cert(tls)
            server = open_.enter_context(serving(tls))
            server.paths["/f"] = Served(BODY)
            return server

        yield start


class Run:
    def __init__(self, part: Path) -> None:
        self.part = part
        self.waits: list[float] = []

    def __call__(self, url: str, web: Web) -> str:
        return fetch(web, Wanted(url), self.part, lambda done, total: None, sleep=self.waits.append)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "f.part")


def refused(run: Run, url: str, web: Web) -> str:
    """What a fetch says that gets no byte, and that is not tried again."""
    with pytest.raises(DownloadError) as caught:
        run(url, web)
    assert run.waits == []
    assert run.part.read_bytes() == b""
    return str(caught.value)


def test_a_file_comes_from_a_server_whose_authority_is_known(serve: Serve, run: Run, trusted: str) -> None:
    assert run(f"{serve().base}/f", Web(certificates=trusted, timeout=5)) == SHA
    assert run.part.read_bytes() == BODY


def test_an_authority_can_be_named_as_openssl_has_it(
    serve: Serve, run: Run, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    assert run(f"{serve().base}/f", Web(timeout=5)) == SHA


def test_an_authority_that_nobody_knows_is_not_trusted_and_gets_no_token(serve: Serve, run: Run) -> None:
    server = serve()
    said = refused(run, f"{server.base}/f", Web({server.host: SECRET}, timeout=5))
    assert "its certificate is not trusted: " in said
    assert f"{server.base}/f" in said
    assert server.asked == []


def test_a_certificate_for_another_host_is_not_trusted(serve: Serve, run: Run, trusted: str) -> None:
    server = serve("other.example")
    said = refused(run, f"{server.base}/f", Web({server.host: SECRET}, trusted, timeout=5))
    assert "its certificate is not trusted: IP address mismatch" in said
    assert server.asked == []


def test_a_certificate_that_is_over_is_not_trusted(serve: Serve, run: Run, trusted: str) -> None:
    server = serve(until=datetime.now(UTC) - WHOLE_DAYS)
    assert "certificate has expired" in refused(run, f"{server.base}/f", Web(certificates=trusted, timeout=5))


def test_a_redirect_to_another_host_leaves_the_token_behind_and_is_gone_on_from(
    serve: Serve, run: Run, trusted: str
) -> None:
    first, other = serve(), serve()
    first.paths["/r"] = Served(redirect=f"{other.base}/f")
    other.paths["/f"].cuts = [1000]
    assert run(f"{first.base}/r", Web({first.host: SECRET}, trusted, timeout=5)) == SHA
    assert [headers.get("Authorization") for _, headers in first.asked] == [SECRET] * 2
    assert [headers.get("Authorization") for _, headers in other.asked] == [None] * 2
    assert other.ranges() == [None, "bytes=1000-"]


def test_a_redirect_to_a_host_that_is_not_trusted_is_refused(serve: Serve, run: Run, trusted: str) -> None:
    first, other = serve(), serve("other.example")
    first.paths["/r"] = Served(redirect=f"{other.base}/f")
    assert "its certificate is not trusted" in refused(run, f"{first.base}/r", Web(certificates=trusted, timeout=5))
    assert other.asked == []


def test_a_redirect_never_leaves_the_encryption(serve: Serve, run: Run, trusted: str) -> None:
    first = serve()
    with serving() as plain:
        plain.paths["/f"] = Served(BODY)
        first.paths["/r"] = Served(redirect=f"{plain.base}/f")
        said = refused(run, f"{first.base}/r", Web({first.host: SECRET}, trusted, timeout=5))
        assert "without encryption" in said
        assert plain.asked == []


def test_a_server_that_speaks_no_tls_is_given_up_and_told(run: Run) -> None:
    with serving() as plain, pytest.raises(DownloadError, match=r"gave up after 6 attempts: .*SSL"):
        run(plain.base.replace("http:", "https:") + "/f", Web(timeout=5))
