"""The socket that the server listens on: an address and port, or a path."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from ds4.errors import SettingsError

BACKLOG = 2048
_TRIES, _TRY_SECONDS = 200, 0.02


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or a SettingsError that says what stands in the way."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise SettingsError(
            f"is no address to listen on: {getattr(error, 'strerror', None) or error}", subject=f"--host {host}"
        ) from None
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                "is in use by another program; stop it or choose another with --port (0 takes a free one)",
                subject=f"port {port} on {host}",
            ) from None
        raise SettingsError(f"cannot listen there: {error.strerror}", subject=f"port {port} on {host}") from None
    return sock


def permissions(text: str) -> int:
    """The mode that octal digits say."""
    if not 1 <= len(text) <= 4 or set(text) - set("01234567") or int(text, 8) > 0o777:
        raise SettingsError(
            "permissions of a socket", subject="--unix-mode", expected="octal digits, as 600 or 660", found=repr(text)
        )
    return int(text, 8)


class UnixSocket:
    """A socket at a path, with these permissions from its first moment. What an ended server has left there is removed;
    anything else, and a server that still listens, is left alone: SettingsError."""

    def __init__(self, path: Path, mode: int) -> None:
        self.path = path
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _alone(path):
                _clear(path)
                before = os.umask(0o777 & ~mode)
                try:
                    self.sock.bind(os.fspath(path))
                finally:
                    os.umask(before)
                self.sock.listen(BACKLOG)
        except OSError as error:
            self.sock.close()
            why = "too long for a socket" if "too long" in str(error) else error.strerror or str(error)
            raise SettingsError(f"cannot listen there: {why}", subject=f"--unix {path}") from None
        except SettingsError:
            self.sock.close()
            raise

    def remove(self) -> None:
        """At the end, unless another server listens there by now."""
        self.sock.close()
        with contextlib.suppress(OSError, SettingsError), _alone(self.path):
            _clear(self.path)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While servers that start or end at one path take turns: between the look at a socket and its removal another
    might have put its own there. Some filesystems know no locks; whoever holds one for long is not waited for."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield  # what is wrong with the folder is told by what is done in it
        return
    try:
        for _ in range(_TRIES):
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_TRY_SECONDS)
            except OSError:
                break
        yield
    finally:
        os.close(folder)


def _clear(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SettingsError("something that is no socket lies there; remove it", subject=f"--unix {path}")
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            os.unlink(path)
        except OSError as error:
            raise SettingsError(f"cannot tell whether somebody listens: {error}", subject=f"--unix {path}") from None
        else:
            raise SettingsError("a server listens there already", subject=f"--unix {path}")
