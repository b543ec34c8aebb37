"""Writes answers.jsonl and prompts.jsonl: answers worked out by hand, and what transformers makes of tool rounds.

    pip install transformers==5.24.0 jinja2==3.1.6
    python goldens/output_dialects/generate.py

Nothing of ours is called. ANSWERS pairs what a model writes, after the published formats of Hermes, Llama 3 and
Mistral, with what it says, one event a line; neighbouring deltas are one. prompts.jsonl is rendered from templates/,
which are our own, each in the manner of one family, from messages that stand here as such a template needs them.
"""

from __future__ import annotations

import json
import pathlib

from dialects import hermes, llama3, mistral, others, reasoning
from dialects.prompts import PROMPTS, TOOLS
from transformers.utils.chat_template_utils import render_jinja_template

HERE = pathlib.Path(__file__).parent


def main() -> None:
    answers = [
        {"case": case, "tools": tools, "reasoning": tags, "thinking": bool(thinking), "input": text}
        | {"expected": json.dumps(says, ensure_ascii=False)}
        for dialect in (hermes, reasoning, llama3, mistral, others)
        for case, tools, tags, thinking, text, says in dialect.ANSWERS
    ]
    prompts = []
    for name, messages in PROMPTS.items():
        template = (HERE / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
        for end, case in ((2, "before a call"), (len(messages), "behind its results")):
            rendered, _ = render_jinja_template(
                [messages[:end]], tools=TOOLS, chat_template=template, add_generation_prompt=True, bos_token="<s>"
            )
            prompts.append({"case": f"{name}: {case}", "template": name, "end": end, "expected": rendered[0]})
    for file, rows in (("answers.jsonl", answers), ("prompts.jsonl", prompts)):
        text = "".join([json.dumps(row, ensure_ascii=False) + "\n" for row in rows])
        (HERE / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
