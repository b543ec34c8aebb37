"""HTTP as fetching needs it: time-outs, redirects that stay encrypted, credentials that stay with their host."""

from __future__ import annotations

import datetime
import email.utils
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import urlsplit

from ds4 import __version__
from ds4.errors import DownloadError

TIMEOUT_S = 30.0  # without a byte
_LONGEST_S = 60.0  # that a server may have us wait
# What happens on the way and may well not happen again.
PASSING = (OSError, http.client.HTTPException)


class Passing(Exception):
    """A failure worth another attempt. after: seconds that the server asks to wait."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True)
class Web:
    """How to ask. credentials: host to Authorization header. certificates: file of authorities; None: the system's."""

    credentials: Mapping[str, str] = field(default_factory=dict)
    certificates: str | None = None
    timeout: float = TIMEOUT_S

    def open(self, url: str, headers: Mapping[str, str] | None = None) -> http.client.HTTPResponse:
        """The response of a GET: 2xx, or 416 where a range was asked for.

        Raises Passing for what may pass, DownloadError for what will not.
        """
        scheme, host = urlsplit(url).scheme, urlsplit(url).netloc
        if scheme not in ("http", "https") or not host:
            raise DownloadError("cannot fetch from there", subject=url, expected="http or https", found=scheme or url)
        request = urllib.request.Request(url, headers={"User-Agent": f"ds4/{__version__}", **(headers or {})})
        if host in self.credentials:
            request.add_unredirected_header("Authorization", self.credentials[host])
        handlers: list[urllib.request.BaseHandler] = [_Redirects()]
        if self.certificates is not None:  # else the library's default: the system's authorities
            context = ssl.create_default_context(cafile=self.certificates)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        opener = urllib.request.build_opener(*handlers)
        try:
            response: http.client.HTTPResponse = opener.open(request, timeout=self.timeout)
            return response
        except urllib.error.HTTPError as error:
            return self._refused(url, error)
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                said = f"its certificate is not trusted: {error.reason.verify_message}"
                raise DownloadError(said, subject=url) from None
            raise Passing(str(error.reason)) from None
        except PASSING as error:
            raise Passing(str(error) or type(error).__name__) from None

    @staticmethod
    def _refused(url: str, error: urllib.error.HTTPError) -> http.client.HTTPResponse:
        if error.code == 416:
            return error  # type: ignore[return-value]  # it has a response's status, headers and close
        error.close()
        said = f"the server answered {error.code} {error.reason}"
        if error.code in (408, 425, 429) or error.code >= 500:
            raise Passing(said, _seconds(error.headers.get("Retry-After")))
        hint = "; it may need a token or an accepted licence" if error.code in (401, 403) else ""
        raise DownloadError(said + hint, subject=url)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        same = old.scheme == new.scheme and old.netloc == new.netloc
        if new.scheme != "https" and not same:
            raise DownloadError("redirected to another place without encryption", subject=req.full_url,
                                expected="https, or the same host", found=f"{new.scheme}://{new.netloc}")  # fmt: skip
        moved: Any = super().redirect_request(req, fp, code, msg, headers, newurl)
        if moved is not None and same:
            for name, value in req.unredirected_hdrs.items():
                moved.add_unredirected_header(name, value)
        return moved  # type: ignore[no-any-return]


def _seconds(text: str | None) -> float | None:
    """What Retry-After says, a number or a date (RFC 9110, 10.2.3), but a minute at the most; None for neither."""
    if text is None:
        return None
    if text.isdecimal():
        return min(float(text), _LONGEST_S)
    try:
        then = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=datetime.UTC)
    return min(max((then - datetime.datetime.now(datetime.UTC)).total_seconds(), 0.0), _LONGEST_S)
