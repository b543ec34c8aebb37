"""What a case of an answer is."""

from __future__ import annotations

# case, tool dialect, reasoning tags, whether the prompt opened reasoning, what the model writes, what that says
Answer = tuple[str, str, str, int, str, list[str]]
