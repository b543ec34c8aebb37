"""Bodies of requests for the component `request`: what clients of each surface send, and what they should not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parity.choices import Choices

_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 3.0, 1.5, -0.0, "", "x", "\ud800", [], {}, [None], [{}], {"a": 1}, 1 << 31),
    *((1 << 63) - 1, 1 << 64, -(1 << 63) - 1, 10**400, 1e300, float("inf"), 1e-60, 0.99999999999, "é" * 70, ["a", 1]),
    *("none", "auto", "\ud83d\ude00", [[]], {"type": "text"}, 2, 9, 20, 21, 100, 101.5, -2.5),
)  # fmt: skip
_TEXTS = (
    "hi",
    "",
    "é😀",
    "a\nb",
    "x-anthropic-billing-header: a\n\nrest",
    "x-anthropic-a",
    "<system>",
    "error: no",
    '"',
)
SCHEMAS: tuple[Any, ...] = ({"type": "object", "properties": {"a": {"type": "string"}}}, {}, {"x": 1.5, "y": [1, -0]})
_NAMES = ("f", "get_weather", "é", "g")
_EFFORTS = ("high", "none", "minimal", "low", "medium", "xhigh", "max", "ultra", "")
_MODELS = ("m", "deepseek-chat", "deepseek-reasoner", "", "m")
_IDS = ("call_1", "call_2", "toolu_1", "")
_NAMELESS = (
    *("web_search", "reasoning_trace", "compaction", "mcp_call", "computer_call_output", "x"),
    *("program", "web_search_call", "tool_search_output"),
)  # fmt: skip
_HIDDEN = ("ds4-thinking:aG0=", "sig", "", *(f"ds4-thinking:{rest}" for rest in ("aG1", "aG1=", "_-8=", "w6k=", "")))
_SEALED = ("ds4:aG0=", "ds4:aG1=", "ds4:", "gAAA", "ds4:/+8=", "ds4:w6k=", "")


class Bodies:
    """Makes bodies of a surface: fields as clients send them, now and then an odd one."""

    def __init__(self, choose: Choices) -> None:
        self.choose = choose
        how = choose.below(16)
        self.odd = how < 5  # whether this body may have odd values
        self.calm = 2 < how < 14  # whether only what is good is taken: the first two of the values

    def of(self, *values: Any) -> Any:
        return self.good(*values[: 2 if self.calm else None])

    def good(self, *values: Any) -> Any:
        choose = self.choose
        if self.odd and choose.once_in(32):
            return choose.of(_ODD)
        return choose.of(values)

    def maybe(self, made: dict[str, Any], name: str, *values: Any, often: int = 4) -> None:
        if self.choose.below(often) == 1:
            made[name] = self.of(*values)

    def several(self, make: Callable[[], Any], most: int = 3) -> list[Any]:
        return [make() for _ in range(self.choose.below(most + 1))]

    def text(self) -> Any:
        return self.good(*_TEXTS)

    # ---- fields of several surfaces ----

    def sampling(self, made: dict[str, Any]) -> None:
        rare = 10
        self.maybe(made, "temperature", 0.7, 0, 1, 100, 101, 1e-60, often=rare)
        self.maybe(made, "top_p", 0.9, 1, 0, 1e-60, 1.0000000001, often=rare)
        self.maybe(made, "top_k", 40, -1, 0, 1 << 40, -2, 5.0, often=rare)
        self.maybe(made, "min_p", 0.05, 0, 1, 0.99999999999, often=rare)
        self.maybe(made, "repetition_penalty", 1.1, 0, 1e-60, 99.99999999, None, often=rare)
        self.maybe(made, "repeat_penalty", 1.2, -1, 0, often=rare)
        self.maybe(made, "frequency_penalty", 0.5, -2, 2.5, often=rare)
        self.maybe(made, "presence_penalty", 0.5, 2, -3, often=rare)
        self.maybe(made, "seed", 42, -1, (1 << 64) - 1, -(1 << 63), 1 << 64, 7.0, 1e19, often=rare)
        biases: tuple[Any, ...] = ({"1": 5, "01": -5.5, "7": 100}, {"5000": 1}, {"x": 1}, {"3": 101}, {"2": "a"})
        self.maybe(made, "logit_bias", *biases, {str(n): 1 for n in range(20)}, {"0000000001": 1}, often=rare)

    def options(self, made: dict[str, Any]) -> None:
        self.sampling(made)
        self.maybe(made, "max_tokens", 100, 1, 0, 1 << 40, 5.0, often=6)
        self.maybe(made, "max_completion_tokens", 100, 1e300, 0, None, often=8)
        told: tuple[Any, ...] = {"include_usage": True}, {}, {"include_usage": 1}, {"include_progress": False}
        self.maybe(made, "stream_options", *told, often=6)
        self.maybe(made, "stream_options", {"include_progress": True}, often=48)
        self.maybe(made, "n", 1, 2, 8, 9, 0, 2.0, often=10)
        self.stops(made, "stop")
        self.maybe(made, "ignore_eos", True, False, often=12)
        self.maybe(made, "cache_prompt", True, False, often=12)
        self.maybe(made, "stream", True, False, often=3)

    def stops(self, made: dict[str, Any], name: str) -> None:
        values: tuple[Any, ...] = (
            "END",
            ["a", "b", "a"],
            [""],
            ["x" * 1025],
            [str(n) for n in range(17)],
            ["a", 1],
            [],
        )
        self.maybe(made, name, *values, "", "é" * 1024, often=8)

    def outside(self, made: dict[str, Any]) -> None:
        if self.choose.once_in(24):
            made[self.choose.of(("grammar", "regex", "thinking_budget", "tool_choice", "response_format"))] = self.of(
                "auto", {"type": "text"}, {"type": "json_object"}, "none", {"type": "auto"}, {}
            )

    def function(self) -> Any:
        made: dict[str, Any] = {"name": self.of(*_NAMES)}
        self.maybe(made, "description", *_TEXTS, often=2)
        self.maybe(made, "parameters", *SCHEMAS, often=2)
        self.maybe(made, "strict", False, None, True, often=20)
        return made

    # ---- chat ----

    def chat(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "model": self.of(*_MODELS),
            "messages": self.good(self.several(self.message, 5) or [{"role": "user", "content": "x"}]),
        }
        if self.choose.below(3) == 1:
            made["tools"] = self.several(
                lambda: self.of(*[{"type": "function", "function": self.function()}] * 3, {"type": "x"})
            )
        self.maybe(made, "tool_choice", "auto", None, often=6)
        self.maybe(made, "functions", [], often=24)
        self.maybe(made, "function_call", "none", "auto", often=24)
        self.maybe(made, "thinking", True, False, {"type": "enabled"}, {"type": "disabled"}, {"type": "x"}, {}, often=8)
        self.maybe(made, "enable_thinking", True, False, often=8)
        self.maybe(made, "think", True, 1, often=16)
        self.maybe(made, "reasoning_effort", *_EFFORTS, often=6)
        self.options(made)
        self.maybe(made, "top_logprobs", 5, 0, 20, 21, often=10)
        self.maybe(made, "logprobs", True, True, False, often=6)
        return made

    def parts(self) -> Any:
        part = {"type": "text", "text": self.text()}
        good = self.good(self.text(), self.text(), [part], [part, {"type": "text", "text": "b"}], [])
        return self.of(good, good, good, [{"type": "image_url"}])

    def message(self) -> Any:
        role = self.good("user", "assistant", "tool", "system", "developer", "user")
        made: dict[str, Any] = {"role": role}
        if role != "assistant" or self.choose.below(3):
            made["content"] = self.parts()
        self.maybe(made, "name", "n", "", often=12)
        if role == "tool":
            made["tool_call_id"] = self.of(*_IDS)
        if role == "assistant":
            if self.choose.below(2):
                made["tool_calls"] = self.several(self.call)
            self.maybe(made, "reasoning_content", "hm", "", often=4)
            self.maybe(made, "reasoning", "so", often=6)
            self.maybe(made, "prefix", True, False, often=10)
        return self.of(*[made] * 7)

    def call(self) -> Any:
        made: dict[str, Any] = {"function": {"name": self.of(*_NAMES)}, "type": self.of("function", "function", None)}
        self.maybe(made, "id", *_IDS, often=2)
        self.maybe(made["function"], "arguments", '{"a": 1}', "", often=2)
        return made

    # ---- completions ----

    def completions(self) -> dict[str, Any]:
        prompts: tuple[Any, ...] = (
            "hi",
            ["a", "é"],
            [1, 2, 3],
            [[1], [2, 3]],
            [],
            [[]],
            [[1], 2],
            ["a"] * 65,
            [1, 5000],
        )
        made = {"model": self.of(*_MODELS), "prompt": self.of(*prompts, [1.0], [True], ["a", 1], [-1, 10**40])}
        self.maybe(made, "echo", False, True, 0, often=20)
        self.maybe(made, "suffix", "", "x", often=20)
        self.options(made)
        self.maybe(made, "best_of", 1, 2, often=10)
        self.maybe(made, "logprobs", 0, 5, 20, 21, True, often=5)
        return made

    # ---- messages ----

    def cached(self, made: dict[str, Any]) -> dict[str, Any]:
        self.maybe(made, "cache_control", {"type": "ephemeral"}, None, often=10)
        return made

    def messages(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "model": self.of(*_MODELS),
            "messages": self.good(self.several(self.turn, 6) or [{"role": "user", "content": "x"}]),
        }
        if self.choose.below(24):
            made["max_tokens"] = self.good(1024, 1, 0, 1 << 40, 32000, 32000)
        if self.choose.below(2):
            made["system"] = self.of(self.text(), [self.block_text(), self.block_text()], [])
        if self.choose.below(3) == 1:
            made["tools"] = self.several(self.tool)
        self.maybe(made, "tool_choice", {"type": "auto"}, None, often=8)
        self.maybe(made, "output_config", {"effort": self.of(*_EFFORTS)}, {}, {"format": {}}, often=6)
        self.maybe(made, "reasoning_effort", *_EFFORTS, often=10)
        self.maybe(made, "mcp_servers", [], [{}], often=24)
        kinds = ("enabled", "disabled", "adaptive", "between_tools")
        thinking = {"type": self.of(self.good(*kinds), "adaptive", "x")}
        self.maybe(thinking, "budget_tokens", 31999, 0, 1 << 40, -1, 2.0, often=2)
        self.maybe(thinking, "display", "omitted", "summarized", "x", often=4)
        self.maybe(made, "thinking", thinking, thinking, {}, {"display": "omitted"}, often=2)
        self.sampling(made)
        self.stops(made, "stop_sequences")
        self.maybe(made, "metadata", {"user_id": "u"}, {}, {"user_id": 1}, often=8)
        self.maybe(made, "stream", True, False, often=3)
        self.maybe(made, "ignore_eos", True, often=16)
        self.maybe(made, "cache_prompt", False, True, often=16)
        return self.cached(made)

    def tool(self) -> Any:
        made: dict[str, Any] = {"name": self.of(*_NAMES)}
        if self.choose.below(10):
            made["input_schema"] = self.of(*SCHEMAS)
        self.maybe(made, "description", *_TEXTS, often=2)
        self.maybe(made, "type", "custom", "tool_search_tool_regex", "web_search_20250305", None, often=4)
        return self.cached(made)

    def block_text(self) -> Any:
        return self.cached({"type": "text", "text": self.text()})

    def turn(self) -> Any:
        role = self.good("user", "assistant", "user", "assistant", "system", "user")
        if role == "assistant":
            content = self.good(self.text(), self.several(self.said), self.several(self.said), None)
        elif role == "system":
            content = self.of(self.text(), [self.block_text()], [])
        else:
            content = self.good(self.text(), self.several(self.heard), self.several(self.heard), [])
        return self.of(*[{"role": role, "content": content}] * 7)

    def said(self) -> Any:
        match self.choose.below(8):
            case 0 | 1:
                return self.block_text()
            case 2 | 3:
                block: dict[str, Any] = {"type": "tool_use", "id": self.of(*_IDS), "name": self.of(*_NAMES)}
                self.maybe(block, "input", {"a": 1.5, "b": [None, "é\x7f"]}, {}, {"c": -0, "d": 1e22}, often=2)
                return block
            case 4 | 5:
                return {"type": "thinking", "thinking": self.good("hm", "", "so"), "signature": self.of(*_HIDDEN)}
            case 6:
                return {"type": "redacted_thinking", "data": "x"}
        return {"type": self.of("redacted_thinking", "redacted_thinking", "image", "server_tool_use", "text")}

    def heard(self) -> Any:
        match self.choose.below(8):
            case 0 | 1 | 2:
                return self.block_text()
            case 3 | 4:
                block: dict[str, Any] = {"type": "tool_result", "tool_use_id": self.of(*_IDS[:3])}
                self.maybe(block, "content", self.text(), self.several(self.result, 3), [], often=2)
                self.maybe(block, "is_error", True, False, often=3)
                return block
        return self.readable()

    def readable(self) -> Any:
        match self.choose.below(5):
            case 0:
                return {"type": "search_result", "title": self.text(), "source": "s", "content": [self.block_text()]}
            case 1:
                return {"type": "document", "title": "t", "source": {"type": "text", "data": self.text()}}
            case 2:
                inner = self.of([self.block_text()], "x", None)
                return {"type": "document", "context": "c", "source": {"type": "content", "content": inner}}
            case 3:
                block = self.block_text()
                return self.of(block, block, {"type": "document", "source": {"type": "base64", "data": "AA=="}})
        return self.of(self.block_text(), self.block_text(), {"type": self.of("image", "text", None, "tool_result")})

    def result(self) -> Any:
        match self.choose.below(4):
            case 0:
                return self.block_text()
            case 1:
                return {"type": "tool_reference", "tool_name": self.of("f", None)}
            case 2:
                return {"type": self.of("image", "x" * 50, "é", 3, "\ud800")}
        return self.readable()

    # ---- responses ----

    def responses(self) -> dict[str, Any]:
        made: dict[str, Any] = {"model": self.of(*_MODELS)}
        items = self.several(self.item, 7)
        if self.choose.below(20):
            made["input"] = self.of(items, items, items, self.text(), "hi")
        if self.choose.below(3) == 1:
            made["tools"] = self.several(self.newer)
        self.maybe(made, "instructions", *_TEXTS, often=2)
        self.maybe(
            made, "include", ["reasoning.encrypted_content"], ["message.output_text.logprobs"], ["x", 1], often=4
        )
        summaries = {
            "effort": self.of(*_EFFORTS[:7]),
            "summary": self.of("auto", "none", "concise", "detailed", None, "x"),
        }
        self.maybe(made, "reasoning", summaries, {"generate_summary": "auto"}, {"summary": ""}, {}, often=3)
        self.maybe(made, "text", {"verbosity": "low"}, {"format": {"type": "text"}}, {}, often=6)
        self.maybe(made, "truncation", "auto", "disabled", "", "x", often=12)
        self.maybe(made, "metadata", {"k": "v"}, {"é" * 64: "x"}, {"é" * 65: 1}, {"k": 1}, {"k": "v" * 513}, often=10)
        self.maybe(made, "parallel_tool_calls", True, False, often=6)
        self.maybe(made, "previous_response_id", "resp_1", None, often=16)
        for name in ("prompt_cache_key", "safety_identifier", "user"):
            self.maybe(made, name, "x", "", often=12)
        self.maybe(made, "max_tool_calls", 1, 0, 1 << 40, often=20)
        self.maybe(made, "max_output_tokens", 100, 0, 1 << 40, often=6)
        self.maybe(made, "top_logprobs", 5, 0, 21, often=12)
        self.maybe(made, "store", False, True, often=4)
        self.maybe(made, "background", True, False, often=12)
        self.maybe(made, "conversation", None, "x", often=24)
        self.maybe(made, "prompt", None, {}, often=24)
        self.maybe(made, "tool_choice", "auto", None, often=8)
        self.options(made)
        return made

    def newer(self) -> Any:
        match self.choose.below(6):
            case 0 | 1:
                return {"type": "function", **self.function(), "name": self.of(*_NAMES, "h", "i", "j")}
            case 2:
                return {"type": "custom", "name": self.of("patch", "p", "f"), "description": self.text()}
            case 3 | 4:
                inner = [
                    {"type": "function", **self.function()},
                    {"type": self.of("custom", "web_search"), "name": "q"},
                ]
                made = {"type": "namespace", "name": self.of("ns", "m", ""), "tools": self.of(inner, inner[:1], [])}
                self.maybe(made, "description", *_TEXTS, often=2)
                return made
        return {"type": self.of(*_NAMELESS)}

    def item(self) -> Any:
        id = self.good("call_1", "call_1", "call_2", "call_1")
        match self.choose.below(11):
            case 0 | 1 | 2:
                role = self.good("user", "assistant", "developer", "system")
                made: dict[str, Any] = {"type": "message", "role": role, "content": self.contents()}
                if self.choose.once_in(4):
                    del made["type"]
                return made
            case 3:
                made = {"type": "reasoning", "summary": self.of([], [{"type": "summary_text", "text": "s"}])}
                self.maybe(made, "content", [{"type": "reasoning_text", "text": "hm"}], [], None, often=2)
                self.maybe(made, "encrypted_content", *_SEALED, often=2)
                return made
            case 4 | 5:
                made = {"type": "function_call", "call_id": id, "name": self.of(*_NAMES)}
                self.maybe(made, "arguments", '{"a": 1}', "", often=2)
                self.maybe(made, "namespace", "ns", "", often=5)
                return made
            case 6:
                return {"type": "custom_tool_call", "call_id": id, "name": "patch", "input": self.of('x\n"é', "", None)}
            case 7 | 8:
                kind = self.of("function_call_output", "custom_tool_call_output")
                return {"type": kind, "call_id": id, "output": self.contents()}
        known = {"type": self.of("compaction", "mcp_call", *_NAMELESS)}
        rare = self.choose.of((known, known, known, {"id": "msg_1"}, {"type": "item_reference", "id": "x"}))
        return self.of(known, rare, {})

    def contents(self) -> Any:
        part = {"type": self.of("input_text", "output_text", "text"), "text": self.text()}
        good = self.good(self.text(), [part], [part, {"type": "refusal", "refusal": "no"}], [])
        return self.of(good, good, good, [{"type": "input_image"}])
