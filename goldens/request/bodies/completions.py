"""Completions."""

from __future__ import annotations

from bodies.asking import bad, good


def completions() -> None:
    for prompt, prompts in (
        ("", [""]),
        (["a", "é"], ["a", "é"]),
        ([1, 2, 999], [[1, 2, 999]]),
        ([[1], [], [2]], [[1], [], [2]]),
        (["x"] * 64, ["x"] * 64),
    ):
        good("completions", {"prompt": prompt}, prompts=prompts)
    for prompt, code, param in (
        (None, "invalid_type", "prompt"),
        ({}, "invalid_type", "prompt"),
        ([], "invalid_value", "prompt"),
        (["x"] * 65, "invalid_value", "prompt"),
        (["x", 1], "invalid_type", "prompt[1]"),
        ([1.0], "invalid_type", "prompt"),
        ([[1], 2], "invalid_type", "prompt[1]"),
        ([[1], [True]], "invalid_type", "prompt[1]"),
        ([1000], "invalid_value", "prompt"),
        ([[-1]], "invalid_value", "prompt[0]"),
        ([None], "invalid_type", "prompt"),
    ):
        bad("completions", {"prompt": prompt}, code, param)
    good("completions", {"echo": False, "suffix": "", "best_of": 1})
    good("completions", {"best_of": 3, "n": 3}, n=3)
    bad("completions", {"best_of": 3}, "unsupported_parameter", "best_of")
    bad("completions", {"echo": 0}, "unsupported_parameter", "echo")
    bad("completions", {"suffix": "x"}, "unsupported_parameter", "suffix")
    good("completions", {"logprobs": 0}, logprobs=0)
    good("completions", {"logprobs": 20}, logprobs=20)
    bad("completions", {"logprobs": True}, "invalid_type", "logprobs")
