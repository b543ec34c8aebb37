"""Traces: what a server was asked, what it computed and what it answered, one request a file, to be read and replayed.

A file is UTF-8 text, one JSON object a line, in this order (version 1):

    {"kind": "ds4-trace", "version": 1, "id", "surface", "created", "model", "fingerprint", "numeric", "kv", "context"}
    {"kind": "request", "body"}                            as the client sent it, keys struck out
    {"kind": "choice", "index", "prompt", "sampling", "seed", "stop", "ignore_eos", "held"}      one a choice, by index
    {"kind": "token", "choice", "token", "ms", "decoding", "reading", "step_us"}                 one a drawn token
    {"kind": "wire", "text"}                               the answer's bytes, without its head
    {"kind": "end", "outcome", "tokens", "ms"}             outcome: finished, failed or gone

prompt: token ids. held: some tokens were barred, by a grammar or a thinking budget; by which masks is not recorded.
Absent in older files: false. sampling: the fields of core.sampling.Sampling but seed, which is the choice's own. ms:
milliseconds from the request's arrival. decoding, reading: rows of the step that drew the token, for answers and for
prompts; step_us: how long it ran. tokens: how many token lines there are. Fields that a reader does not know are passed
over, so a later version 1 may have more; another version is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, cast

from ds4.core.sampling import Sampling
from ds4.errors import Ds4Error

VERSION = 1
MOST_BYTES = 1 << 30
_OUTCOMES = ("finished", "failed", "gone")
Outcome = Literal["finished", "failed", "gone"]
_INT32, _UINT64 = 2**31, 2**64


class TraceError(Ds4Error):
    """A file that is no trace, is cut short, or says what cannot be."""

    code = "trace"


@dataclass(frozen=True, slots=True)
class TracedChoice:
    prompt: list[int]
    sampling: Sampling
    seed: int
    stop: list[str] = field(default_factory=list)
    ignore_eos: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class Token:
    choice: int
    token: int
    ms: float
    decoding: int
    reading: int
    step_us: int


@dataclass(frozen=True, slots=True)
class Trace:
    id: str
    surface: str
    created: int
    model: str
    fingerprint: str
    numeric: str
    kv: str
    context: int
    body: dict[str, Any]
    choices: list[TracedChoice]
    tokens: list[Token]
    wire: str
    outcome: Outcome
    ms: float

    def drawn(self, index: int) -> list[int]:
        """The tokens of a choice, in order."""
        return [one.token for one in self.tokens if one.choice == index]


_HEAD = ("id", "surface", "created", "model", "fingerprint", "numeric", "kv", "context")


def encode(trace: Trace) -> bytes:
    """The file's bytes."""

    def lines() -> Iterator[Mapping[str, Any]]:
        yield {"kind": "ds4-trace", "version": VERSION, **{name: getattr(trace, name) for name in _HEAD}}
        yield {"kind": "request", "body": trace.body}
        for index, one in enumerate(trace.choices):
            sampling = {name: value for name, value in asdict(one.sampling).items() if name != "seed"}
            sampling["logit_bias"] = {str(token): value for token, value in one.sampling.logit_bias.items()}
            rest = {"seed": one.seed, "stop": one.stop, "ignore_eos": one.ignore_eos}
            line = {"kind": "choice", "index": index, "prompt": one.prompt, "sampling": sampling, **rest}
            yield {**line, "held": one.held}
        for token in trace.tokens:
            yield {"kind": "token", **asdict(token)}
        yield {"kind": "wire", "text": trace.wire}
        yield {"kind": "end", "outcome": trace.outcome, "tokens": len(trace.tokens), "ms": trace.ms}

    return b"".join(json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n" for line in lines())


def decode(data: bytes) -> Trace:
    """Reads a whole file. TraceError names the line and what is wrong with it."""
    if len(data) > MOST_BYTES:
        raise TraceError("too large", expected=f"at most {MOST_BYTES} bytes", found=len(data))
    if not data.endswith(b"\n"):
        raise TraceError(
            "cut short: its last line has no end", expected="a line of kind 'end'", found=_shown(data[-40:])
        )
    reader = _Lines(data[:-1].split(b"\n"))
    head = reader.take("ds4-trace")
    if head.integer("version", 0, _INT32) != VERSION:
        raise TraceError("another version", subject="line 1", expected=VERSION, found=head.data["version"])
    body = reader.take("request").value("body", dict, "an object")
    choices: list[TracedChoice] = []
    while reader.kind == "choice":
        choices.append(_choice(reader.take("choice"), len(choices)))
    tokens: list[Token] = []
    while reader.kind == "token":
        line = reader.take("token")
        if not choices:
            raise TraceError("a token of no choice", subject=line.subject)
        tokens.append(
            Token(
                line.integer("choice", 0, len(choices) - 1),
                line.integer("token", 0, _INT32 - 1),
                line.number("ms"),
                line.integer("decoding", 0, _INT32),
                line.integer("reading", 0, _INT32),
                line.integer("step_us", 0, _UINT64),
            )
        )
    wire = reader.take("wire").text("text")
    end = reader.take("end")
    outcome = end.text("outcome")
    if outcome not in _OUTCOMES:
        raise TraceError(
            "no such outcome", subject=end.subject, expected=" or ".join(_OUTCOMES), found=repr(outcome)[:80]
        )
    if (said := end.integer("tokens", 0, _UINT64)) != len(tokens):
        raise TraceError("token lines are missing or too many", subject=end.subject, expected=said, found=len(tokens))
    reader.done()
    return Trace(
        id=head.text("id"),
        surface=head.text("surface"),
        created=head.integer("created", 0, _UINT64),
        model=head.text("model"),
        fingerprint=head.text("fingerprint"),
        numeric=head.text("numeric"),
        kv=head.text("kv"),
        context=head.integer("context", 1, _INT32),
        body=body,
        choices=choices,
        tokens=tokens,
        wire=wire,
        outcome=cast(Outcome, outcome),
        ms=end.number("ms"),
    )


def _choice(line: _Line, index: int) -> TracedChoice:
    line.integer("index", index, index)
    prompt = line.value("prompt", list, "an array of token ids")
    if not prompt or any(type(token) is not int or not 0 <= token < _INT32 for token in prompt):
        raise TraceError("no array of token ids", subject=f"{line.subject}, prompt")
    stop = line.value("stop", list, "an array of strings")
    if any(not isinstance(one, str) for one in stop):
        raise TraceError("no array of strings", subject=f"{line.subject}, stop")
    ignore = line.value("ignore_eos", bool, "a boolean")
    held = line.value("held", bool, "a boolean") if "held" in line.data else False
    given = line.value("sampling", dict, "an object")
    known = {one.name for one in fields(Sampling)} - {"seed"}
    sampling = {name: value for name, value in given.items() if name in known}
    biases = sampling.get("logit_bias", {})
    if not isinstance(biases, dict) or not all(key.isascii() and key.isdigit() and len(key) < 11 for key in biases):
        raise TraceError("no biases by token id", subject=f"{line.subject}, logit_bias")
    try:
        made = Sampling(**{**sampling, "logit_bias": {int(key): value for key, value in biases.items()}})
    except Ds4Error as error:
        raise TraceError(str(error), subject=f"{line.subject}, sampling") from None
    return TracedChoice(prompt, made, line.integer("seed", 0, _UINT64 - 1), stop, ignore, held)


@dataclass(slots=True)
class _Line:
    data: dict[str, Any]
    subject: str

    def value(self, name: str, kind: type, wanted: str) -> Any:
        value = self.data.get(name)
        if type(value) is not kind:
            raise TraceError(
                "missing or of another type", subject=f"{self.subject}, {name}", expected=wanted, found=_shown(value)
            )
        return value

    def text(self, name: str) -> str:
        return str(self.value(name, str, "a string"))

    def integer(self, name: str, low: int, high: int) -> int:
        value = self.value(name, int, f"an integer in {low}..{high}")
        if not low <= value <= high:
            raise TraceError(
                "out of range", subject=f"{self.subject}, {name}", expected=f"{low}..{high}", found=_shown(value)
            )
        return int(value)

    def number(self, name: str) -> float:
        value = self.data.get(name)
        if type(value) not in (int, float) or not 0 <= cast(float, value) < 1e15:
            raise TraceError("no time", subject=f"{self.subject}, {name}", expected="milliseconds", found=_shown(value))
        return float(cast(float, value))


class _Lines:
    def __init__(self, lines: list[bytes]) -> None:
        self._lines, self._at = lines, 0
        self._next = self._read()

    @property
    def kind(self) -> object:
        return self._next.data.get("kind") if self._next is not None else None

    def _read(self) -> _Line | None:
        if self._at == len(self._lines):
            return None
        subject = f"line {self._at + 1}"
        try:
            data = json.loads(self._lines[self._at].decode(), parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise TraceError(f"not JSON: {str(error)[:120]}", subject=subject) from None
        if not isinstance(data, dict):
            raise TraceError("not a JSON object", subject=subject, expected="an object", found=_shown(data))
        self._at += 1
        return _Line(data, subject)

    def take(self, kind: str) -> _Line:
        line = self._next
        if line is None:
            raise TraceError("cut short", subject=f"line {self._at + 1}", expected=f"kind {kind!r}", found="the end")
        if self.kind != kind:
            raise TraceError(
                "another line is due", subject=line.subject, expected=f"kind {kind!r}", found=_shown(self.kind)
            )
        self._next = self._read()
        return line

    def done(self) -> None:
        if self._next is not None:
            raise TraceError(
                "more behind the end", subject=self._next.subject, expected="the end", found=_shown(self.kind)
            )


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:
        return "a huge number"
    return repr(value)[:80]
