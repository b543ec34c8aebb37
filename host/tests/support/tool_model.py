"""A model file for scripts: one token for each byte, and a chat template of our own whose tools are called in Hermes'
way. Its weights are zeros; nothing computes with them."""

from __future__ import annotations

import json
from pathlib import Path

from support.gguf_writer import I32, STRING, TYPE_Q8_0, WIDTH, tiny_llama
from support.vocabularies import BYTE_CHARACTERS, CHATML

CONTEXT = 131072

TEMPLATE = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n' }}
    {%- endif %}
    {{- 'Tools:\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson + '\\n' }}
    {%- endfor %}
    {{- 'Call one with <tool_call>{"name": NAME, "arguments": OBJECT}</tool_call>.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- elif not (tools and loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def write(path: Path) -> Path:
    writer = tiny_llama()
    tokens = [*CHATML, *(BYTE_CHARACTERS[byte] for byte in range(256))]
    for key in ("llama.context_length", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"):
        writer.without(key)
    writer.u32("llama.context_length", CONTEXT)
    writer.array("tokenizer.ggml.tokens", STRING, tokens)
    writer.array("tokenizer.ggml.token_type", I32, [3] * len(CHATML) + [1] * 256)
    writer.array("tokenizer.ggml.merges", STRING, [])
    writer.string("tokenizer.ggml.pre", "smollm")
    writer.u32("tokenizer.ggml.eos_token_id", CHATML.index("<|im_end|>"))
    writer.string("tokenizer.chat_template", TEMPLATE)
    writer.change("token_embd.weight", dims=(WIDTH, len(tokens)), type=TYPE_Q8_0)
    return writer.write(path)


def hermes_call(name: str, arguments: dict[str, str]) -> str:
    """What this model writes to call a tool."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def dsml_call(name: str, arguments: dict[str, str]) -> str:
    """What DeepSeek V4 writes to call a tool."""
    mark = "｜DSML｜"
    given = "".join(
        f'<{mark}parameter name="{key}" string="true">{value}</{mark}parameter>\n' for key, value in arguments.items()
    )
    invoke = f'<{mark}invoke name="{name}">\n{given}</{mark}invoke>\n'
    return f"\n\n<{mark}tool_calls>\n{invoke}</{mark}tool_calls>"
