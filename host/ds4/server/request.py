"""A generation request in one shape, whatever surface it came through; and the typed reading of JSON bodies.

Every field is read by kind and range; what cannot be used is a 400 that names the field. A bool is never a number,
NaN and infinities are refused, unknown fields are ignored, null means "not given".
"""

from __future__ import annotations

import base64
import json
import math
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from ds4.core.chat import ChatRequest
from ds4.core.constraint.budget import Budget
from ds4.core.constraint.grammar import Grammar
from ds4.core.constraint.matcher import Matcher
from ds4.core.json_kinds import kind
from ds4.core.sampling import Sampling
from ds4.server import limits
from ds4.server.answer import ChatAnswer
from ds4.server.errors import ApiError, invalid
from ds4.server.ops.account import Account
from ds4.server.pooling import Pool
from ds4.server.schedule.route import Surface

if TYPE_CHECKING:
    from ds4.server.tracing import Recording

_REST_OF_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


@dataclass(slots=True)
class GenerationRequest:
    """What to generate. Choice i continues prompts[i // n].

    prompts:    token ids, each at least one and shorter than the context.
    max_tokens: most tokens of each answer, or None for what the context leaves.
    logprobs:   None, or how many alternatives to report for each token (0: the drawn one only).
    answer:     how answers are read, of a chat; None: their text is all there is.
    chat:       what the prompt was made of, of a chat.
    grammar:    what answers are held to, all of their text, reasoning included; constrained_by: the field that asked
                for it; matcher: made of it by `Constraints.compile`, before the engine sees the request.
    budget:     how long answers may reason; None: as long as they like.
    surface, client: where it came from, and whose it is: who has had least goes first.
    scope:      of the key that asked: only what its own requests left in banks is continued.
    account:    where it is written what becomes of it.
    calls:      ids of the tool calls whose results the request ends with. stored: its answer is kept.
    """

    id: str
    prompts: list[list[int]]
    sampling: Sampling
    n: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    answer: ChatAnswer | None = None
    chat: ChatRequest | None = None
    grammar: Grammar | None = None
    matcher: Matcher | None = None
    constrained_by: str | None = None
    budget: Budget | None = None
    cache_prompt: bool = True
    stream: bool = False
    include_usage: bool = False
    progress: bool = False  # a stream tells how far its prompts have been read
    nbytes: int = 0
    trace: Recording | None = None
    pools: list[Pool] | None = None  # of embeddings: where the states of each prompt go
    surface: Surface = "chat"
    client: str = ""
    scope: int = 0
    account: Account | None = None
    calls: tuple[str, ...] = ()
    stored: bool = False
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def held(self) -> bool:
        """Whether some tokens may be barred, which only the last one drawn can tell."""
        return self.matcher is not None or self.budget is not None

    @property
    def choices(self) -> int:
        return len(self.prompts) * self.n


@dataclass(frozen=True, slots=True)
class Options:
    """The fields that every generating surface shares, as the client gave them."""

    sampling: Sampling
    n: int
    max_tokens: int | None
    stop: tuple[str, ...]
    ignore_eos: bool
    cache_prompt: bool
    stream: bool
    include_usage: bool
    progress: bool

    def on(self, cache: bool) -> Options:
        """These options where prompts are kept, or not."""
        return self if cache or not self.cache_prompt else replace(self, cache_prompt=False)


def new_suffix() -> str:
    """What cannot be guessed of an id."""
    return secrets.token_hex(16)


def new_id(prefix: str, joint: str = "-") -> str:
    """An id that cannot be guessed."""
    return f"{prefix}{joint}{new_suffix()}"


def parse_json(raw: bytes) -> Body:
    """The body as an object, or a 400 that says what is wrong with it."""
    if raw.count(b"[") + raw.count(b"{") > limits.MAX_NESTING:
        _check_nesting(raw)
    try:
        data = json.loads(raw.decode(), parse_constant=_refuse_constant)
    except ApiError:
        raise
    except UnicodeDecodeError as error:
        raise invalid(
            f"The body is not valid UTF-8: {error.reason} at byte {error.start}.", code="invalid_json"
        ) from None
    except (ValueError, RecursionError) as error:
        raise invalid(f"The body is not valid JSON: {error}.", code="invalid_json") from None
    if not isinstance(data, dict):
        raise invalid(f"The body must be a JSON object, not {kind(data)}.", code="invalid_json")
    return Body(data, raw=raw)


def _refuse_constant(name: str) -> None:
    raise invalid(f"The body is not valid JSON: {name} is not a JSON number.", code="invalid_json")


def _check_nesting(raw: bytes) -> None:
    depth = 0
    for bracket in _BRACKETS.findall(_REST_OF_STRING.sub(b"", raw)):
        depth += 1 if bracket in b"[{" else -1
        if depth > limits.MAX_NESTING:
            raise invalid(f"The body is nested more than {limits.MAX_NESTING} levels deep.", code="invalid_json")


def wrong_type(param: str, expected: str, found: object) -> ApiError:
    return invalid(f"'{param}' must be {expected}, not {kind(found)}.", param, "invalid_type")


def text(value: object, param: str) -> str:
    """A string that UTF-8 can carry: lone surrogates, which JSON escapes can smuggle in, are refused."""
    if not isinstance(value, str):
        raise wrong_type(param, "a string", value)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise invalid(f"'{param}' holds a lone surrogate at character {error.start}.", param) from None
    return value


def base64_text(encoded: str, altchars: bytes = b"+/") -> str:
    """The text in base64. ValueError for what encoding that text does not give: which leniencies a decoder has depends
    on its version."""
    data = base64.b64decode(encoded, altchars, validate=True)
    if base64.b64encode(data, altchars).decode() != encoded:
        raise ValueError("not as base64 is written")
    return data.decode()


class Body:
    """A JSON object whose fields are read by kind and range."""

    __slots__ = ("data", "path", "raw")

    def __init__(self, data: Mapping[str, Any], path: str = "", raw: bytes = b"") -> None:
        self.data = data
        self.path = path
        self.raw = raw  # of a whole body: its bytes

    def get(self, name: str) -> Any:
        return self.data.get(name)

    def param(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def text(self, name: str) -> str | None:
        value = self.data.get(name)
        return None if value is None else text(value, self.param(name))

    def boolean(self, name: str, default: bool = False) -> bool:
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong_type(self.param(name), "a boolean", value)
        return value

    def integer(self, name: str, low: int, high: int, *, clamp: bool = False) -> int | None:
        """An integer in low..high; clamp: larger ones count as `high`. 3.0 is one, true and 3.5 are not."""
        value = self.data.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong_type(self.param(name), "an integer", value)
        if isinstance(value, float):
            if not math.isfinite(value) or value != int(value):
                raise wrong_type(self.param(name), "an integer", value)
            value = int(value)
        if clamp and value > high:
            return high
        if not low <= value <= high:
            raise invalid(
                f"'{self.param(name)}' must be between {low} and {high}, not {_short(value)}.", self.param(name)
            )
        return value

    def number(self, name: str) -> float | None:
        value = self.data.get(name)
        if value is None:
            return None
        return number(value, self.param(name))

    def nested(self, name: str) -> Body:
        """A nested object; absent or null reads as empty."""
        value = self.data.get(name)
        if value is None:
            return Body({}, self.param(name))
        if not isinstance(value, dict):
            raise wrong_type(self.param(name), "an object", value)
        return Body(cast("dict[str, Any]", value), self.param(name))

    def refuse(self, name: str, allowed: tuple[object, ...], why: str) -> None:
        """A 400 for a field that asks for what this server does not do; null, absent and `allowed` pass."""
        value = self.data.get(name)
        if value is not None and not any(value is a or (value == a and type(value) is type(a)) for a in allowed):
            raise invalid(why, self.param(name), "unsupported_parameter")


def number(value: object, param: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(param, "a number", value)
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise invalid(f"'{param}' must be a finite number.", param)
    return value


def _short(value: int) -> str:
    shown = str(value) if value.bit_length() < 128 else "a huge number"
    return shown if value.bit_length() < 128 or value > 0 else "a hugely negative number"


def tail_calls(messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Ids of the calls whose results a conversation ends with, oldest first; a word of the user may follow them."""
    end = len(messages) - (len(messages) > 1 and messages[-1].get("role") == "user")
    begin = end
    while begin and messages[begin - 1].get("role") == "tool":
        begin -= 1
    ids = (message.get("tool_call_id") for message in messages[begin:end])
    return tuple([value for value in ids if isinstance(value, str)])


def read_options(body: Body, defaults: Sampling, n_vocab: int) -> Options:
    """The shared fields of chat and completions. defaults: what the model recommends where the client says nothing."""
    for name in ("max_tokens", "max_completion_tokens"):
        body.integer(name, 1, limits.LARGEST_COUNT, clamp=True)
    max_tokens = body.integer("max_completion_tokens", 1, limits.LARGEST_COUNT, clamp=True)
    if max_tokens is None:
        max_tokens = body.integer("max_tokens", 1, limits.LARGEST_COUNT, clamp=True)
    told = body.nested("stream_options")
    usage, progress = told.boolean("include_usage"), told.boolean("include_progress")
    return Options(
        sampling=read_sampling(body, defaults, n_vocab),
        n=body.integer("n", 1, limits.MAX_CHOICES) or 1,
        max_tokens=max_tokens,
        stop=read_stops(body),
        ignore_eos=body.boolean("ignore_eos"),
        cache_prompt=body.boolean("cache_prompt", True),
        stream=(stream := body.boolean("stream")),
        include_usage=usage,
        progress=progress and stream,
    )


def read_sampling(body: Body, defaults: Sampling, n_vocab: int) -> Sampling:
    """How tokens are drawn. defaults: where the client says nothing."""

    def pick(name: str, default: float) -> float:
        value = body.number(name)
        return default if value is None else value

    seed = body.integer("seed", -(1 << 63), limits.UINT64)
    top_k = body.integer("top_k", -1, limits.LARGEST_COUNT, clamp=True)  # -1: off, as other servers have it
    repetition = "repetition_penalty" if body.get("repetition_penalty") is not None else "repeat_penalty"
    return Sampling(
        temperature=pick("temperature", defaults.temperature),
        top_p=pick("top_p", defaults.top_p),
        top_k=defaults.top_k if top_k is None else max(0, min(top_k, n_vocab)),
        min_p=pick("min_p", defaults.min_p),
        repetition_penalty=pick(repetition, defaults.repetition_penalty),
        frequency_penalty=pick("frequency_penalty", defaults.frequency_penalty),
        presence_penalty=pick("presence_penalty", defaults.presence_penalty),
        logit_bias=_biases(body, n_vocab),
        seed=None if seed is None else seed & limits.UINT64,
    )


def _biases(body: Body, n_vocab: int) -> dict[int, float]:
    biases = body.nested("logit_bias").data
    if len(biases) > limits.MAX_BIASES:
        raise invalid(f"'logit_bias' may name at most {limits.MAX_BIASES} tokens.", "logit_bias")
    read: dict[int, float] = {}
    for key, value in biases.items():
        if not (key.isascii() and key.isdigit() and len(key) < 10 and int(key) < n_vocab):
            raise invalid(f"'logit_bias' has a key that is no token id (0 to {n_vocab - 1}).", "logit_bias")
        bias = number(value, "logit_bias")
        if not -100 <= bias <= 100:
            raise invalid(f"'logit_bias' values must be between -100 and 100, not {bias:g}.", "logit_bias")
        read[int(key)] = bias
    return read


def read_stops(body: Body, name: str = "stop") -> tuple[str, ...]:
    """Stop strings, each once."""
    value = body.get(name)
    if value is None:
        return ()
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise wrong_type(name, "a string or an array of strings", value)
    if len(value) > limits.MAX_STOPS:
        raise invalid(f"'{name}' may hold at most {limits.MAX_STOPS} strings.", name)
    stops = [text(item, f"{name}[{i}]") for i, item in enumerate(value)]
    for i, stop in enumerate(stops):
        if not 1 <= len(stop) <= limits.MAX_STOP_CHARS:
            raise invalid(f"'{name}[{i}]' must have 1 to {limits.MAX_STOP_CHARS} characters.", f"{name}[{i}]")
    return tuple(dict.fromkeys(stops))


def token_ids(value: list[object], n_vocab: int, param: str) -> list[int]:
    """An array of token ids of this model."""
    for item in value:
        if type(item) is not int:
            raise wrong_type(param, "an array of token ids", item)
        if not 0 <= item < n_vocab:
            raise invalid(f"'{param}' holds {_short(item)}, which is no token id (0 to {n_vocab - 1}).", param)
    return cast("list[int]", value)
