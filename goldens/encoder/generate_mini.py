"""Writes mini/samples.jsonl: the prompts of the trained miniature's sample dialogues, each as it was put to the model.

    PYTHONPATH=host python goldens/encoder/generate_mini.py samples.json

samples.json: of the dsv4-mini fixture, whose texts were rendered by its own generator. Each turn of a dialogue is a
case: the conversation is read out of what came before it.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from typing import Any

from ds4.sys.tape import escape, line

HERE = pathlib.Path(__file__).parent
TOKEN = re.compile("<｜[^｜<]*｜>|</?think>|｜DSML｜")
SECTION = re.compile("(.*?)\n\n## Tools\n\n.*### Available Tool Schemas\n\n(.*?)\n\nYou MUST strictly", re.DOTALL)
RESULT = re.compile("<tool_result>(.*?)</tool_result>", re.DOTALL)
EOS = "<｜end▁of▁sentence｜>"


def head(text: str, thinking: bool) -> list[bytes]:
    rows = [line("encode", int(thinking), 0, 1)]
    system = text.removeprefix("<｜begin▁of▁sentence｜>")
    found = SECTION.match(system)
    content, tools = (found[1], found[2].split("\n")) if found else (system, [])
    if system:
        rows.append(line("turn", b"system", "text", content.encode()))
    return rows + [b"tool " + escape(tool) + b"\n" for tool in tools]


def asked(text: str) -> list[bytes]:
    body = re.fullmatch("<｜User｜>(.*)<｜Assistant｜></?think>", text, re.DOTALL)
    assert body is not None, text
    results = RESULT.findall(body[1])
    if not results:
        return [line("turn", b"user", "text", body[1].encode())]
    return [line("turn", b"tool", "text", result.encode()) for result in results]


def answered(turn: dict[str, Any], thinking: bool) -> list[bytes]:
    reasoning, content = turn["output"].removesuffix(EOS).split("</think>") if thinking else ("", turn["output"])
    rows = [line("turn", b"assistant", "text", content.removesuffix(EOS).partition("\n\n<｜DSML｜")[0].encode())]
    rows += [line("reasoning", reasoning.encode())] if reasoning else []
    for name, arguments in turn["parsed_calls"] or ():
        rows.append(line("call", b"", name.encode(), json.dumps(dict(arguments)).encode()))
    return rows


def segments(text: str) -> str:
    out, end = b"", 0
    for found in TOKEN.finditer(text):
        out += line("plain", text[end : found.start()].encode()) if found.start() > end else b""
        out += line("special", found[0].encode())
        end = found.end()
    return (out + (line("plain", text[end:].encode()) if end < len(text) else b"")).decode()


def main() -> None:
    rows = []
    for sample in json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")):
        if "<｜User｜>" not in sample["turns"][0]["input"]:
            continue  # a document, no dialogue
        thinking = sample["turns"][0]["input"].endswith("<think>")
        tape, prompt = head(sample["system_and_tools"], thinking), sample["system_and_tools"]
        for number, turn in enumerate(sample["turns"]):
            tape += asked(turn["input"])
            prompt += turn["input"]
            name = f"{sample['name']}, turn {number}"
            rows.append({"case": name, "input": b"".join(tape).decode(), "expected": segments(prompt)})
            tape += answered(turn, thinking)
            prompt += turn["output"]
    with (HERE / "mini" / "samples.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    print(len(rows), "prompts")


if __name__ == "__main__":
    main()
