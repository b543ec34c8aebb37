"""request: a JSON body as the request that it is, or the error with which it is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from ds4.core.sampling import Sampling
from ds4.server.surfaces.asked import ModelFacts, Surface
from ds4.server.surfaces.request_tapes import RequestInput, by_tape, run, write_input

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain
from parity.request_bodies import SCHEMAS, Bodies

_SURFACES: tuple[Surface, ...] = ("chat", "messages", "responses", "completions", "messages", "responses", "chat")


def _json(choose: Choices, value: Any) -> bytes:
    """As bytes; now and then no JSON, or JSON that Python's own writer does not write."""
    text = json.dumps(value, ensure_ascii=not choose.below(2))
    raw = text.encode("utf-8", "surrogatepass")
    if not choose.once_in(12):
        return raw
    at = choose.below(65536) % len(raw)
    match choose.below(8):
        case 0:
            return raw[:at]
        case 1:
            return raw[:at] + bytes([choose.below(256)]) + raw[at:]
        case 2:
            return b"\xef\xbb\xbf" + raw
        case 3:
            return b" \n" + raw.replace(b", ", b",\t") + b"\r\n"
        case 4:  # a key twice: the last value counts
            return raw[:-1] + b', "model": "twice", "stream": false}'
        case 5:
            return raw[:-1] + b', "x": ' + choose.of((b"[" * 64, b"9" * 4301, b"1e400", b"NaN", b"-", b"01")) + b"}"
        case 6:
            depth = choose.of((62, 63, 64))
            return raw[:-1] + b', "x": ' + b"[" * depth + b"]" * depth + b"}"
    return choose.of((b"", b"null", b"[]", b"{}", b"1", b'"x"', b"\xff", b"{} {}"))


def tape(seed: bytes) -> bytes:
    """The input that a seed stands for."""
    choose = Choices(seed)
    surface = choose.of(_SURFACES)
    how = choose.below(32)
    defaults = Sampling(temperature=1.0, min_p=0.05) if how % 2 else Sampling(0.6, 0.95, 40, 0.0, 1.1)
    model = ModelFacts("m\u00e9", 100 if how & 2 else 5000, how != 31, bool(how & 4), how & 24 != 8, defaults)
    body = Bodies(choose)
    made = getattr(body, surface)()
    body.outside(made)
    return write_input(RequestInput(surface, model, _json(choose, made)))


def _soak(rng: random.Random) -> bytes:
    """A long conversation, as an agent sends it late in its session."""
    pairs = rng.randrange(200, 1200)
    surface: Surface = rng.choice(("chat", "messages", "responses"))
    body = Bodies(Choices(rng.randbytes(400)))
    body.odd, body.calm = False, True
    made = getattr(body, surface)()
    talk: list[Any] = []
    for n in range(pairs):
        id, arguments = f"call_{n}", json.dumps({"path": f"src/{n}.py", "at": n})
        match surface:
            case "chat":
                call = {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}
                talk += [{"role": "assistant", "content": None, "tool_calls": [call]}]
                talk += [{"role": "tool", "tool_call_id": id, "content": "line\n" * (n % 7)}]
            case "messages":
                use = {"type": "tool_use", "id": id, "name": "read", "input": json.loads(arguments)}
                talk += [{"role": "assistant", "content": [{"type": "text", "text": "So:"}, use]}]
                result = {
                    "type": "tool_result",
                    "tool_use_id": id,
                    "content": [{"type": "text", "text": "é" * (n % 50)}],
                }
                talk += [{"role": "user", "content": [result]}]
            case _:
                talk += [{"type": "function_call", "call_id": id, "name": "read", "arguments": arguments}]
                talk += [{"type": "function_call_output", "call_id": id, "output": "line\n" * (n % 7)}]
    made["input" if surface == "responses" else "messages"] = talk
    model = ModelFacts("m", 5000, True, True, True, Sampling(1.0))
    return write_input(RequestInput(surface, model, json.dumps(made).encode()))


def _spoken() -> tuple[Callable[[], object], bytes]:
    """An agent's request: ten tools, twenty calls and their results."""
    tools = [
        {
            "type": "function",
            "function": {"name": f"tool_{n}", "description": "Does it." * 20, "parameters": SCHEMAS[0]},
        }
        for n in range(10)
    ]
    talk: list[Any] = [{"role": "system", "content": "You help." * 200}, {"role": "user", "content": "Fix it."}]
    for n in range(20):
        call = {"id": f"call_{n}", "type": "function", "function": {"name": "tool_1", "arguments": '{"a": "b"}'}}
        talk += [{"role": "assistant", "content": "", "tool_calls": [call]}]
        talk += [{"role": "tool", "tool_call_id": f"call_{n}", "content": "result\n" * 50}]
    body = {"model": "m", "messages": talk, "tools": tools, "stream": True, "temperature": 0.7}
    given = RequestInput("chat", ModelFacts("m", 5000, thinks=True, defaults=Sampling(1.0)), json.dumps(body).encode())
    return lambda: run(given), write_input(given)


COMPONENT = Component(
    name="request",
    about="a JSON body of chat, completions, messages or responses as the request that it is, or its refusal",
    axes=("wire", "token", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=32, most=320),
    soak=_soak,
    speed=Speed(_spoken, micros=2500.0),  # once a request, of 40 messages here: less than one step of the engine
    sources=(
        "host/ds4/core/json_kinds.py",
        "host/ds4/core/json_text.py",
        "host/ds4/core/sampling.py",
        "host/ds4/server/errors.py",
        "host/ds4/server/limits.py",
        "host/ds4/server/request.py",
        "host/ds4/server/surfaces/asked.py",
        "host/ds4/server/surfaces/*_request.py",
        "host/ds4/server/surfaces/messages_turns.py",
        "host/ds4/server/surfaces/reading.py",
        "host/ds4/server/surfaces/request_*.py",
        "host/ds4/server/surfaces/responses_items.py",
        "host/ds4/server/surfaces/responses_tools.py",
        "oracles/request/*",
        "oracles/common/*",
        "parity/components/request.py",
        "parity/choices.py",
        "parity/request_bodies.py",
        "goldens/request/**",
    ),
)
