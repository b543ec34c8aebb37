"""Coding agents as people run them, without a terminal: pi on its three surfaces and Claude Code.

Each gets a home and a folder of its own and no way out: they are told to stay offline, and no variable of this process
reaches them. Their prompts are their vendors' text; records of them stay in the test's folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import clients
from support.clients import Done
from support.recorder import Exchange

SECONDS = 60
_PI = {"openai-completions": "/v1", "openai-responses": "/v1", "anthropic-messages": ""}
"""pi's names of surfaces, and what it wants behind the server's address."""


@dataclass(frozen=True)
class Agent:
    """name: for pi, its name of the surface. path: where its requests go. shell: the name of its tool for commands."""

    name: str
    path: str
    shell: str

    def run(self, folder: Path, url: str, prompt: str, tokens: int) -> Done:
        """One turn, with the tool rounds that the model asks for. The commands run in `folder`. tokens: for an answer
        at most."""
        if self.name in ("claude", "claude-whole"):
            return clients.run(
                _claude(prompt, bare=self.name == "claude"), folder, SECONDS, **_claude_environment(url, tokens)
            )
        settings = folder / "home" / ".pi" / "agent" / "models.json"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps(_pi_settings(url + _PI[self.name], self.name, tokens)))
        return clients.run(_pi(prompt), folder, SECONDS, PI_OFFLINE="1")

    def results(self, exchange: Exchange) -> list[str]:
        """What a request of the agent's says that tools gave, in their order."""
        asked = exchange.asked
        if self.path == "/v1/chat/completions":
            return [_text(m["content"]) for m in asked["messages"] if m["role"] == "tool"]
        if self.path == "/v1/responses":
            return [_text(item["output"]) for item in asked["input"] if item.get("type") == "function_call_output"]
        blocks = [b for m in asked["messages"] if isinstance(m["content"], list) for b in m["content"]]
        return [_text(block["content"]) for block in blocks if block["type"] == "tool_result"]


AGENTS = (
    Agent("openai-completions", "/v1/chat/completions", "bash"),
    Agent("openai-responses", "/v1/responses", "bash"),
    Agent("anthropic-messages", "/v1/messages", "bash"),
    Agent("claude", "/v1/messages", "Bash"),
)


WHOLE = Agent("claude-whole", "/v1/messages", "Bash")
"""Claude Code with all of its prompt and tools, some 50 KB."""


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _pi(prompt: str) -> list[str]:
    program = clients.modules() / "@mariozechner" / "pi-coding-agent" / "dist" / "cli.js"
    return [clients.node(), str(program), "--provider", "ds4", "--model", "served", "-p", prompt]


def _pi_settings(url: str, surface: str, tokens: int) -> Mapping[str, Any]:
    model = {
        **{"id": "served", "name": "served", "reasoning": False, "input": ["text"]},
        **{"contextWindow": 65536, "maxTokens": tokens},
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    return {"providers": {"ds4": {"baseUrl": url, "api": surface, "apiKey": "k", "models": [model]}}}


def _claude(prompt: str, bare: bool) -> list[str]:
    program = clients.modules() / "@anthropic-ai" / "claude-code-linux-x64" / "claude"
    command = [str(program), "-p", prompt, "--model", "served", "--allowedTools", "Bash"]
    return [*command, *(("--bare", "--tools", "Bash", "--system-prompt", "hi") if bare else ())]


def _claude_environment(url: str, tokens: int) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(tokens),
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
