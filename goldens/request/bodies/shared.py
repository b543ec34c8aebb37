"""What several surfaces take: JSON, sampling and stops all of them, and options two."""

from __future__ import annotations

import json

from bodies.asking import BASE, add, asks, bad, good


def sampling(surface: str) -> None:
    good(surface, {})
    good(surface, {"unknown": {"deep": [1, None]}, "service_tier": "auto", "safety": None})
    good(surface, {"temperature": None, "top_p": None, "seed": None, "logit_bias": None, "stream": None, "top_k": None})
    for name, field in (("temperature", "temperature"), ("top_p", "top_p"), ("min_p", "min_p")):
        head = {"head": {name: 0.25}} if surface == "responses" and name != "min_p" else {}
        good(surface, {name: 0.25}, **{field: 0.25}, **head)
        for value in ("0.5", True, [], {}):
            bad(surface, {name: value}, "invalid_type", name)
        bad(surface, {name: -0.1}, "invalid_value", name)
        bad(surface, {name: 10**400}, "invalid_value", name)
    head = {"head": {"temperature": 2.0}} if surface == "responses" else {}
    good(surface, {"temperature": 2}, temperature=2.0, **head)
    bad(surface, {"temperature": 100.5}, "invalid_value", "temperature")
    for value in (0, 1.5, 1e-60):
        bad(surface, {"top_p": value}, "invalid_value", "top_p")
    for value in (1, 0.99999999999):
        bad(surface, {"min_p": value}, "invalid_value", "min_p")
    good(surface, {"repetition_penalty": 1.5}, repetition=1.5)
    good(surface, {"repeat_penalty": 1.5}, repetition=1.5)
    good(surface, {"repeat_penalty": 1.5, "repetition_penalty": 1.25}, repetition=1.25)
    bad(surface, {"repeat_penalty": 0}, "invalid_value", "repetition_penalty")
    bad(surface, {"repeat_penalty": "1"}, "invalid_type", "repeat_penalty")
    good(surface, {"frequency_penalty": -2, "presence_penalty": 2}, frequency=-2.0, presence=2.0)
    bad(surface, {"frequency_penalty": -2.1}, "invalid_value", "frequency_penalty")
    bad(surface, {"presence_penalty": 3}, "invalid_value", "presence_penalty")
    for value, k in ((5, 5), (0, 0), (-1, 0), (5000, 1000), (1e300, 1000), (3.0, 3)):
        good(surface, {"top_k": value}, top_k=k)
    bad(surface, {"top_k": -2}, "invalid_value", "top_k")
    bad(surface, {"top_k": 1.5}, "invalid_type", "top_k")
    for value, seed in ((7, 7), (-1, 2**64 - 1), (2**64 - 1, 2**64 - 1), (-(2**63), 2**63), (7.0, 7)):
        good(surface, {"seed": value}, seed=seed)
    bad(surface, {"seed": 2**64}, "invalid_value", "seed")
    bad(surface, {"seed": "7"}, "invalid_type", "seed")
    good(surface, {"logit_bias": {"7": 5, "0": -100, "007": 2.5}}, bias=[(7, 2.5), (0, -100.0)])
    for bias in (
        {"1000": 1},
        {"-1": 1},
        {"x": 1},
        {"": 1},
        {"1": 101},
        {"0000000001": 1},
        {str(n): 0 for n in range(1025)},
    ):
        bad(surface, {"logit_bias": bias}, "invalid_value", "logit_bias")
    for bias in ([], {"1": "x"}, {"1": True}, {"1": None}):
        bad(surface, {"logit_bias": bias}, "invalid_type", "logit_bias")


def stops_and_flags(surface: str) -> None:
    stop = "stop_sequences" if surface == "messages" else "stop"
    good(surface, {stop: "END"}, stop=["END"])
    good(surface, {stop: ["b", "a", "b", "é😀"]}, stop=["b", "a", "é😀"])
    good(surface, {stop: ["é" * 1024]}, stop=["é" * 1024])
    good(surface, {stop: []})
    bad(surface, {stop: 5}, "invalid_type", stop)
    bad(surface, {stop: ["a"] * 17}, "invalid_value", stop)
    bad(surface, {stop: ["a", 1]}, "invalid_type", f"{stop}[1]")
    bad(surface, {stop: ["a", ""]}, "invalid_value", f"{stop}[1]")
    bad(surface, {stop: ["", 1]}, "invalid_type", f"{stop}[1]")
    bad(surface, {stop: "x" * 1025}, "invalid_value", f"{stop}[0]")
    good(surface, {"stream": True, "ignore_eos": True, "cache_prompt": False}, stream=1, ignore_eos=1, cache=0)
    good(surface, {"cache_prompt": True}, cache=0, facts={"cache": 0})
    for name in ("stream", "ignore_eos", "cache_prompt"):
        bad(surface, {name: 1}, "invalid_type", name)
    bad(surface, {"model": 5}, "invalid_type", "model")
    if surface != "responses":
        bad(surface, {"model": "\ud800"}, "invalid_value", "model")
        bad(surface, {stop: ["\udc00x"]}, "invalid_value", f"{stop}[0]")


def text(surface: str) -> None:
    """Bytes that are no JSON, or hardly."""
    plain = json.dumps(BASE[surface]).encode()
    for raw in (
        *(
            b"",
            b"{",
            b"[]",
            b"null",
            b'"x"',
            b"1",
            plain + b"x",
            plain[:-1],
            plain[:-1] + b",}",
            b"\xef\xbb\xbf" + plain,
        ),
        *(plain.decode().encode("utf-16"), plain[:-1] + b', "x": NaN}', plain[:-1] + b', "x": -Infinity}', b"\xff"),
        *(
            plain[:-1] + b', "x": "\xed\xa0\x80"}',
            plain[:-1] + b', "x": ' + b"9" * 4301 + b"}",
            plain[:-1] + b', "x": 01}',
        ),
        *(plain[:-1] + b', "x": ' + b"[" * 64 + b"]" * 64 + b"}", plain[:-1] + b', "x": "\x01"}', b"[" * 100_000),
        *(b"{'model': 1}", plain[:-1] + b', "x": +1}', plain[:-1] + b', "x": tru}'),
    ):
        add(surface, f"no JSON: {raw[-60:]!r}", raw, b"error 400 invalid_json -\n")
    for raw in (
        *(
            plain[:-1] + b', "x": ' + b"[" * 63 + b"]" * 63 + b"}",
            b" \r\n\t" + plain + b"\n",
            plain[:-1] + b', "x": 1e5}',
        ),
        *(plain[:-1] + b', "stream": true, "stream": false}', plain[:-1] + b', "x": ' + b"9" * 4300 + b"}"),
        plain[:-1] + b', "x": "\\ud83d\\ude00 [[[[{{{{"}',
    ):
        add(surface, f"JSON: {raw[-60:]!r}", raw, asks(surface))


def outside(surface: str) -> None:
    for name in ("grammar", "regex", "thinking_budget"):
        add(surface, f"outside: {name}", {**BASE[surface], name: "x"}, b"outside " + name.encode() + b"\n")
    if surface != "completions":
        add(surface, "no dialect", BASE[surface], b"error 400 no_chat_template -\n", dialect=0)


def shared(surface: str) -> None:
    """What all surfaces have."""
    sampling(surface)
    stops_and_flags(surface)
    text(surface)
    outside(surface)


def options(surface: str) -> None:
    good(surface, {"max_tokens": 7}, budget=7)
    good(surface, {"max_tokens": 7, "max_completion_tokens": 9.0}, budget=9)
    good(surface, {"max_completion_tokens": 1e300}, budget=1 << 31)
    for value, code in ((0, "invalid_value"), (-5, "invalid_value"), (1.5, "invalid_type"), (True, "invalid_type")):
        bad(surface, {"max_tokens": value, "max_completion_tokens": 3}, code, "max_tokens")
        bad(surface, {"max_completion_tokens": value}, code, "max_completion_tokens")
    good(surface, {"stream": True, "stream_options": {"include_usage": True}}, stream=1, usage=1)
    good(surface, {"stream_options": {}})
    bad(surface, {"stream_options": 1}, "invalid_type", "stream_options")
    bad(surface, {"stream_options": {"include_usage": "yes"}}, "invalid_type", "stream_options.include_usage")
    good(surface, {"n": 8}, n=8)
    for value in (0, 9, 10**40):
        bad(surface, {"n": value}, "invalid_value", "n")
