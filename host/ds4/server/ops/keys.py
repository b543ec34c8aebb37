"""API keys: who may ask, and whose prompts share the cache.

Keys are kept as SHA-256 digests and compared in constant time, each with all of them, so that the time of a refusal
tells nothing of how near a guess came. Each key has a scope, a number that goes with its requests to the scheduler: a
prompt never continues on what another key's has left in a bank, unless `shared` says so. A key that goes and comes back
has its old scope again.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import stat
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

from ds4.errors import SettingsError
from ds4.server.errors import ApiError
from ds4.server.ops.reload import readable_again

log = logging.getLogger("ds4.server")

PUBLIC = frozenset({"/", "/health", "/ready"})
"""What is answered without a key: what probes ask, and the page, which holds nothing; so do its files under /ui/."""

CHALLENGE = 'Bearer realm="ds4"'

_LARGEST_FILE = 1 << 20
_LONGEST_KEY = 4096
Scope = MutableMapping[str, Any]


class Asker(NamedTuple):
    """Who asks. scope: whose banks are continued; name: tells keys apart, the same in every process, and says nothing
    of them. Without keys everybody is ANYBODY."""

    scope: int = 0
    name: str = ""


ANYBODY = Asker()


class Keyring:
    """given: keys of flag, variable or configuration; file: one key a line, # before remarks; it is read again by
    `reload`. shared: all keys share one scope. Without any key at all, everything is open.

    Raises SettingsError for a file that cannot be read or holds no key, and for a key that no header can carry.
    """

    def __init__(self, given: Iterable[str] = (), file: Path | None = None, *, shared: bool = False) -> None:
        self._given = tuple(_digest(key, "--api-key") for key in given)
        self._file, self._shared = file, shared
        self._scopes: dict[bytes, int] = {}
        self._digests: tuple[bytes, ...] = ()
        self._take(self._read())

    @property
    def guards(self) -> bool:
        return bool(self._digests)

    def __len__(self) -> int:
        return len(self._digests)

    def reload(self) -> bool:
        """Reads the file again. What cannot be read changes nothing and is logged."""
        try:
            if self._file is not None:
                readable_again(self._file)
            self._take(self._read())
        except SettingsError as error:
            log.error("the keys stay as they were: %s", error)
            return False
        log.info("%d API keys", len(self))
        return True

    def check(self, scope: Scope) -> Asker:
        """Whose key a request shows; ANYBODY where none is needed. ApiError 401 otherwise."""
        if not self._digests or _is_public(_path(scope)):
            return ANYBODY
        shown = _shown(scope)
        found = -1
        digest = hashlib.sha256(shown or b"").digest()
        for index, known in enumerate(self._digests):
            if hmac.compare_digest(digest, known):
                found = index
        if shown is None:
            raise _refused("No API key was sent: put one into the header Authorization (Bearer) or X-Api-Key.")
        if found < 0:
            raise _refused("The API key is not one of this server's.")
        known = self._digests[found]
        return Asker(self._scopes[known], _name(known))

    def _take(self, digests: tuple[bytes, ...]) -> None:
        for digest in digests:
            self._scopes.setdefault(digest, 0 if self._shared else len(self._scopes) + 1)
        self._digests = digests

    def _read(self) -> tuple[bytes, ...]:
        keys = list(self._given)
        if self._file is not None:
            found = [
                _digest(line, f"{self._file} line {number}")
                for number, line in enumerate(_lines(self._file), 1)
                if line and not line.startswith("#")
            ]
            if not found:
                raise SettingsError("holds no key; one a line is expected", subject=str(self._file))
            keys += found
        return tuple(dict.fromkeys(keys))


def _lines(file: Path) -> list[str]:
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            raw = stream.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise SettingsError(f"cannot read it: {error.strerror}", subject=str(file)) from None
    if len(raw) > _LARGEST_FILE:
        raise SettingsError(f"larger than {_LARGEST_FILE} bytes, so no file of keys", subject=str(file))
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        log.warning("%s can be read by others (mode %03o); chmod 600 it", file, stat.S_IMODE(mode))
    try:
        return [line.strip() for line in raw.decode("ascii").splitlines()]
    except UnicodeDecodeError:
        raise SettingsError("keys are printable ASCII, one a line", subject=str(file)) from None


def _digest(key: str, subject: str) -> bytes:
    """Never names the key: what this says is printed and logged."""
    if not key or len(key) > _LONGEST_KEY or not all("!" <= c <= "~" for c in key):
        raise SettingsError(
            f"a key is 1 to {_LONGEST_KEY} printable ASCII characters without spaces", subject=subject, found="another"
        )
    return hashlib.sha256(key.encode("ascii")).digest()


def _name(digest: bytes) -> str:
    """Half of a digest of the digest: enough to tell keys apart, and of no use to whoever reads it in a file."""
    return "key-" + hashlib.sha256(b"ds4 name of " + digest).hexdigest()[:32]


def _is_public(path: str) -> bool:
    return path in PUBLIC or (path.startswith("/ui/") and path.count("/") == 2)


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return path if path == "/" else path.removesuffix("/")


def _shown(scope: Scope) -> bytes | None:
    """The key that a request shows: OpenAI's header before Anthropic's."""
    other: bytes | None = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, key = value.strip().partition(b" ")
            if kind.lower() == b"bearer" and key.strip():
                return bytes(key.strip())
        elif name == b"x-api-key" and value.strip():
            other = bytes(value.strip())
    return other


def _refused(message: str) -> ApiError:
    return ApiError(401, message, code="invalid_api_key", headers=(("www-authenticate", CHALLENGE),))
