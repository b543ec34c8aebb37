"""Tool rounds, as messages of each template."""

from __future__ import annotations

import json
from typing import Any

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "A city's name"}},
    "required": ["city"],
}
TOOL = {"name": "get_weather", "description": "The weather in a city", "parameters": WEATHER}
TOOLS: list[Any] = [{"type": "function", "function": TOOL}]
LISBON, PORTO = {"city": "Lisbon"}, {"city": 'São "P"\n', "days": [1, 2.5, None]}


def _call(call_id: str, arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def _result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "name": "get_weather", "tool_call_id": call_id, "content": content}


SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}
ONE = {"role": "assistant", "content": "I look.", "tool_calls": [_call("aaaaaaaa1", LISBON)]}
OTHER = {"role": "assistant", "content": "", "tool_calls": [_call("aaaaaaaa2", PORTO)]}
BOTH = {**ONE, "tool_calls": [*ONE["tool_calls"], *OTHER["tool_calls"]]}
RESULTS = [_result("aaaaaaaa1", "21"), _result("aaaaaaaa2", "19")]

# By template, the messages as it needs them; test_output_goldens.py makes them from a client's.
PROMPTS: dict[str, list[dict[str, Any]]] = {
    "qwen": [SYSTEM, USER, BOTH, *RESULTS],
    "text": [
        *(SYSTEM, USER),
        {
            **BOTH,
            "tool_calls": [
                _call("aaaaaaaa1", json.dumps(LISBON, ensure_ascii=False)),
                _call("aaaaaaaa2", json.dumps(PORTO, ensure_ascii=False)),
            ],
        },
        *RESULTS,
    ],
    "llama": [SYSTEM, USER, ONE, RESULTS[0], OTHER, RESULTS[1]],
    "mistral": [SYSTEM, USER, BOTH, *RESULTS],
    "mistral_named": [SYSTEM, USER, BOTH, *RESULTS],
}
