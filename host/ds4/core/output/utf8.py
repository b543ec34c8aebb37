"""Bytes that arrive in pieces, as text that never holds half a character."""

from __future__ import annotations

from codecs import utf_8_decode


class Utf8Stream:
    """Incremental UTF-8. The pieces that push and flush return, joined, equal `bytes.decode("utf-8", "replace")` of
    all the bytes: what is truly invalid becomes U+FFFD as soon as that is certain, and a character cut off by the end
    does so at flush.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    @property
    def pending(self) -> bool:
        """Whether the start of a character is being held back."""
        return bool(self._held)

    @property
    def held(self) -> int:
        """How many bytes are being held back."""
        return len(self._held)

    def push(self, data: bytes) -> str:
        if self._held:
            data = self._held + data
        elif data.isascii():
            return data.decode("ascii")
        text, used = utf_8_decode(data, "replace", False)
        held = data[used:]
        if held[:1] == b"\xed" and held[1:] >= b"\xa0":  # half a surrogate, which is no character whatever follows
            text, held = text + "\ufffd" * len(held), b""
        self._held = held
        return text

    def flush(self) -> str:
        text = self._held.decode("utf-8", "replace")
        self._held = b""
        return text
