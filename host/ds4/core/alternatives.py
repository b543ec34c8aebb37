"""One regular expression for many literal texts, fast however many there are: their common beginnings are shared."""

from __future__ import annotations

import re
from collections.abc import Iterable

_Trie = dict[str, "_Trie"]  # "" as a key marks the end of a text


def longest_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """A pattern that matches the longest of the texts at each place; None for no texts. Empty texts are left out.

    A plain alternation tries every text at every place where one of them could begin; some vocabularies have thousands
    of special tokens that all begin with "<".
    """
    trie: _Trie = {}
    for text in filter(None, texts):
        node = trie
        for character in text:
            node = node.setdefault(character, {})
        node[""] = {}
    return re.compile(_expression(trie)) if trie else None


def _expression(node: _Trie) -> str:
    """Matches the rest of any text that goes through the node, the longest first. Chains are walked in a loop, so the
    depth of recursion is the number of branchings, not of characters."""
    chain: list[str] = []
    while len(node) == 1 and "" not in node:
        ((character, node),) = node.items()
        chain.append(re.escape(character))
    branches = [re.escape(character) + _expression(child) for character, child in node.items() if character]
    if not branches:
        return "".join(chain)
    group = f"(?:{'|'.join(branches)})"
    return "".join(chain) + group + ("?" if "" in node else "")
