"""Writes worked/*.jsonl: bodies of the four surfaces, and what each asks for, or why it is refused.

    PYTHONPATH=host python goldens/request/generate.py

Bodies have the shapes of the official SDKs' request types (openai, anthropic) and of what coding agents send. What they
ask for is written beside them by hand; nothing of ours is called. `asks` puts a request's lines together from what
stands in a case, with the defaults of a body that says nothing.
"""

from __future__ import annotations

import base64
import json
import pathlib

from bodies.asking import BASE, CASES
from bodies.chat import chat
from bodies.completions import completions
from bodies.messages import messages
from bodies.responses import responses
from bodies.shared import options, shared

HERE = pathlib.Path(__file__).parent


def main() -> None:
    for surface in BASE:
        shared(surface)
    for surface in ("chat", "completions"):
        options(surface)
    for make in (chat, completions, messages, responses):
        make()
    folder = HERE / "worked"
    folder.mkdir(exist_ok=True)
    for surface, cases in CASES.items():
        rows = []
        for case, given, expected in cases:
            try:
                stored = {"input": given.decode()}
            except UnicodeDecodeError:
                stored = {"input_b64": base64.b64encode(given).decode()}
            rows.append(json.dumps({"case": case, **stored, "expected": expected.decode()}) + "\n")
        (folder / f"{surface}.jsonl").write_text("".join(rows))
        print(surface, len(cases), sum(map(len, rows)))


if __name__ == "__main__":
    main()
