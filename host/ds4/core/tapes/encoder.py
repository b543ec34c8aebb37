"""The wire form of `encoder`, as oracles/encoder/README.md states it, and the encoder answered by the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ds4.core.encoder_dsv4 import Call, Conversation, Turn, encode
from ds4.core.json_text import dumps, loads
from ds4.core.tokenizer import Segment
from ds4.errors import EncoderError
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, escape, integer, line, lines, text

Result = list[Segment] | EncoderError


def write_input(given: Conversation) -> bytes:
    rows = [line("encode", int(given.thinking), int(given.think_max), int(given.drop_thinking))]
    for turn in given.turns:
        content = b"none -" if turn.content is None else b"text %b" % escape(turn.content)
        rows.append(b"turn %b %b\n" % (escape(turn.role), content))
        if turn.role == "tool" and turn.id:
            rows.append(b"id %b\n" % escape(turn.id))
        elif turn.role == "assistant":
            if turn.reasoning:
                rows.append(b"reasoning %b\n" % escape(turn.reasoning))
            rows += [
                b"call %b %b %b\n" % (escape(call.id), escape(call.name), escape(call.arguments)) for call in turn.calls
            ]
            if turn.replay is not None:
                rows.append(b"replay %b\n" % escape(turn.replay))
            if turn.open:
                rows.append(b"open\n")
        elif turn.role in ("system", "developer"):
            rows += [b"tool %b\n" % escape(_json(tool)) for tool in turn.tools]
            if turn.format is not None:
                rows.append(b"format %b\n" % escape(_json(turn.format)))
    return b"".join(rows)


def _json(value: Any) -> str:
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncoderError(f"no JSON: {error}", code="encoder_value") from None


def _value(word: bytes) -> Any:
    try:
        return loads(text(word))
    except TapeError:
        raise
    except ValueError as error:
        raise TapeError(f"no JSON: {error}") from None


_SWITCHES = {b"0": False, b"1": True}
_ORDER = {b"id": 0, b"reasoning": 0, b"call": 1, b"replay": 2, b"open": 3, b"tool": 0, b"format": 1}
_MANY = (b"call", b"tool")
_OF = {
    "tool": (b"id",),
    "assistant": (b"reasoning", b"call", b"replay", b"open"),
    "system": (b"tool", b"format"),
    "developer": (b"tool", b"format"),
}


def read_input(tape: bytes) -> Conversation:
    """TapeError for what is no tape of encoder."""
    rows = lines(tape)
    match next(rows, []):
        case [b"encode", *switches] if len(switches) == 3 and all(word in _SWITCHES for word in switches):
            thinking, think_max, drop = (_SWITCHES[word] for word in switches)
        case _:
            raise TapeError("the first line has the switches")
    return Conversation(tuple(_turns(rows)), thinking, think_max, drop)


def _turns(rows: Iterator[list[bytes]]) -> list[Turn]:
    out: list[Turn] = []
    fields: dict[str, Any] | None = None
    last = -1
    for words in rows:
        match words:
            case [b"turn", role, kind, content]:
                if fields is not None:
                    out.append(Turn(**fields))
                fields = {"role": text(role), "content": _content(kind, content)}
                last = -1
                continue
        verb = words[0] if words else b""
        if fields is None or verb not in _OF.get(fields["role"], ()):
            raise TapeError(f"not a line of this turn: {verb[:20]!r}")
        if _ORDER[verb] < last or (_ORDER[verb] == last and verb not in _MANY):
            raise TapeError(f"out of order: {verb[:20]!r}")
        last = _ORDER[verb]
        _field(fields, words)
    if fields is not None:
        out.append(Turn(**fields))
    return out


def _content(kind: bytes, word: bytes) -> str | None:
    if kind == b"text":
        return text(word)
    if kind == b"none" and word == b"-":
        return None
    raise TapeError(f"not a content: {kind[:20]!r} {word[:20]!r}")


def _field(fields: dict[str, Any], words: list[bytes]) -> None:
    match words:
        case [b"id" | b"reasoning" | b"replay" as verb, word]:
            fields[verb.decode()] = text(word)
        case [b"call", call_id, name, arguments]:
            fields["calls"] = (*fields.get("calls", ()), Call(text(call_id), text(name), text(arguments)))
        case [b"open"]:
            fields["open"] = True
        case [b"tool", word]:
            fields["tools"] = (*fields.get("tools", ()), _value(word))
        case [b"format", word]:
            fields["format"] = _value(word)
        case _:
            raise TapeError(f"words are missing, or too many: {words[0][:20]!r}")


def write_output(result: Result) -> bytes:
    if isinstance(result, EncoderError):
        return line("error", result.code, result.turn if result.turn is not None else 0)
    return b"".join([b"%b %b\n" % (b"special" if special else b"plain", escape(out)) for out, special in result])


def read_output(tape: bytes) -> Result:
    """TapeError for what is no output of encoder."""
    segments: list[Segment] = []
    for words in lines(tape):
        match words:
            case [b"error", code, turn] if not segments:
                return EncoderError("refused", code=code.decode("ascii"), turn=integer(turn))
            case [b"special" | b"plain" as kind, word]:
                segments.append(Segment(text(word), kind == b"special"))
            case _:
                raise TapeError("not a segment")
    return segments


def run(given: Conversation) -> Result:
    """The replacement's answer."""
    try:
        return encode(given)
    except EncoderError as error:
        return error


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))


# ---- answered by the oracle ----


def by_oracle(conversation: Conversation) -> list[Segment]:
    """`encode`, answered by the oracle."""
    result = read_output(oracle("encoder").run(write_input(conversation)))
    if isinstance(result, EncoderError):
        raise result
    return result
