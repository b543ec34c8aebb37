"""The route of a piece of work: the workers that it goes on to, and where the result returns.

Big-endian u32 each; a route of no hops has no bytes.

    hop             20  host length 1..1024, port, layer start, layer end, flags; then the host
    return address  12  kind, host length 0..1024, port; then the host

No host holds a zero byte.
"""

from __future__ import annotations

import struct

from ds4.dist.messages import MAX_HOST_BYTES, Hop, Return
from ds4.errors import FrameError

_HOP = struct.Struct(">5I")
_RETURN = struct.Struct(">3I")


def decode(blob: memoryview, count: int) -> tuple[tuple[Hop, ...], Return | None]:
    """The hops and the return address of a route. Raises FrameError."""
    left = len(blob)
    if count == 0:
        if left:
            raise _trailing(left)
        return (), None
    if count > left // (_HOP.size + 1):
        raise _truncated(f"{count} hops", left)
    hops = []
    at = 0
    for _ in range(count):
        if len(blob) - at < _HOP.size:
            raise _truncated(f"{_HOP.size} bytes", len(blob) - at)
        length, port, layer_start, layer_end, flags = _HOP.unpack_from(blob, at)
        host, at = _host(blob, at + _HOP.size, length, 1)
        hops.append(Hop(host, port, layer_start, layer_end, flags))
    if len(blob) - at < _RETURN.size:
        raise _truncated(f"{_RETURN.size} bytes", len(blob) - at)
    kind, length, port = _RETURN.unpack_from(blob, at)
    host, at = _host(blob, at + _RETURN.size, length, 0)
    if at != left:
        raise _trailing(left - at)
    return tuple(hops), Return(kind, host, port)


def _host(blob: memoryview, at: int, length: int, least: int) -> tuple[bytes, int]:
    if not least <= length <= MAX_HOST_BYTES:
        raise _bad_length(length, least)
    if length > len(blob) - at:
        raise _truncated(f"{length} bytes", len(blob) - at)
    host = bytes(blob[at : at + length])
    _check_no_zero(host)
    return host, at + length


def check(hops: tuple[Hop, ...], back: Return | None) -> None:
    """Raises FrameError for a route that `decode` would not take, and ValueError for hops without a way back."""
    if bool(hops) != (back is not None):
        raise ValueError("a route has a return address exactly if it has hops")
    for hop in hops:
        _check_host(hop.host, 1)
    if back is not None:
        _check_host(back.host, 0)


def _check_host(host: bytes, least: int) -> None:
    if not least <= len(host) <= MAX_HOST_BYTES:
        raise _bad_length(len(host), least)
    _check_no_zero(host)


def encode(hops: tuple[Hop, ...], back: Return | None) -> bytes:
    """The route's bytes. It is taken as `check` left it."""
    parts = []
    for hop in hops:
        parts += [_HOP.pack(len(hop.host), hop.port, hop.layer_start, hop.layer_end, hop.flags), hop.host]
    if back is not None:
        parts += [_RETURN.pack(back.kind, len(back.host), back.port), back.host]
    return b"".join(parts)


def _check_no_zero(host: bytes) -> None:
    if 0 in host:
        raise FrameError("a zero byte in a host", code="frame_host", subject="route", expected="none", found=host[:64])


def _bad_length(length: int, least: int) -> FrameError:
    return FrameError(
        "a host's length", code="frame_host", subject="route", expected=f"{least}..{MAX_HOST_BYTES}", found=length
    )


def _truncated(expected: str, left: int) -> FrameError:
    return FrameError(
        "the route ends early", code="frame_truncated", subject="route", expected=expected, found=f"{left} bytes left"
    )


def _trailing(left: int) -> FrameError:
    return FrameError(
        "bytes behind the route", code="frame_trailing", subject="route", expected="none", found=f"{left} bytes"
    )
