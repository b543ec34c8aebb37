"""Which characters of a rendered prompt come from the template, and which from the request.

The aim: a special token that a user, a tool or a client wrote is tokenised as the text it is, whatever the template
does with it, while what the template itself writes keeps its meaning. Proofs, the cheapest first:

1. Placeholders. The template is rendered twice: once with the request's true strings, which is the prompt; once with
   every string that could hold or complete a special token replaced by a short placeholder between two noncharacters
   (white space around it stays outside, so that `trim` and `strip` do the same to both). If putting the strings back
   yields the prompt, the placeholders show where the request's text stands in it.
2. Marks. A template that looks into such a string (`'</think>' in content`) takes another path over a placeholder:
then
   the two prompts differ, or the template wrote what seems the request's. So where 1 fails, or leaves a special token
   in the request's text, the template is rendered with the true strings once more, with the special tokens in its own
   printed literals replaced by marks. If replacing the marks yields the prompt, they are the template's.
3. Caution. Where neither can be proven, a special token in the prompt counts as one only if no such string of the
request
   has any of its punctuation or its word. Structure may be lost here; safety is not.

Strings that hold no character of any special token's punctuation and are no part of one are left as they are: nothing
can become a special token by them. So are role names, from which templates build `<|user|>` and the like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import nodes

from ds4.core.alternatives import longest_of
from ds4.core.tokenizer import Segment

ROLES = frozenset({"system", "user", "assistant", "tool", "developer", "function", "ipython"})
# Keys that templates look up; as keys they are left alone even if a special token contains the word.
_KEYS = frozenset(
    "role content name type function arguments parameters description properties required enum items tool_calls tools "
    "id tool_call_id index reasoning_content reasoning thinking text image_url default anyOf additionalProperties "
    "title format strict value key return response call user assistant system tool".split()
)
_PAIRS = [(chr(0xFDD0 + i), chr(0xFDD1 + i)) for i in range(0, 32, 2)]  # noncharacters, never assigned a meaning


def merge(segments: Iterable[Segment]) -> list[Segment]:
    """The same text with neighbours of one kind joined and empty ones gone."""
    out: list[Segment] = []
    for segment in segments:
        if not segment.text:
            continue
        if out and out[-1].special == segment.special:
            out[-1] = Segment(out[-1].text + segment.text, segment.special)
        else:
            out.append(segment)
    return out


def overlay(base: list[Segment], proven: list[Segment]) -> list[Segment]:
    """Two readings of one prompt joined: special is what either says is."""
    out: list[Segment] = []
    i = j = a = b = 0  # base[i] from a on, proven[j] from b on
    while i < len(base) and j < len(proven):
        size = min(len(base[i].text) - a, len(proven[j].text) - b)
        out.append(Segment(base[i].text[a : a + size], base[i].special or proven[j].special))
        a, b = a + size, b + size
        if a == len(base[i].text):
            i, a = i + 1, 0
        if b == len(proven[j].text):
            j, b = j + 1, 0
    return merge(out)


class SpecialTexts:
    """The special tokens' texts of one vocabulary, with the questions asked of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = sorted(set(filter(None, texts)), key=len, reverse=True)
        self.pattern = longest_of(self.texts)
        telling = {c for text in self.texts for c in text if not (c.isalnum() or c.isspace() or c in "_-.,:/'\"")}
        for text in self.texts:
            if not telling.intersection(text):
                telling.update(text)
        self._telling = re.compile("[" + re.escape("".join(sorted(telling))) + "]") if telling else None
        self._joined = "\n\ufdef\n".join(self.texts)
        # Of each text: its telling characters, and the words between them.
        self._signs = {text: telling.intersection(text) for text in self.texts}
        split = self._telling.split if self._telling else str.split
        self._words = {text: [word for word in split(text) if word] for text in self.texts}

    def harmless(self, text: str) -> bool:
        """Whether no special token can come about by this text, alone or beside others."""
        if self._telling is None or not text:
            return True
        return self._telling.search(text) is None and text not in self._joined

    def inside(self, segments: Iterable[Segment]) -> bool:
        """Whether text of the request spells a special token."""
        pattern = self.pattern
        return pattern is not None and any(not s.special and pattern.search(s.text) for s in segments)

    def supplied_by(self, special: str, text: str) -> bool:
        """Whether `text`, cut and joined in some way, could give `special` or a part of it that tells."""
        if text in special or not self._signs[special].isdisjoint(text):
            return True
        return any(word in text for word in self._words[special])


class Request:
    """The request's values as one render sees them, and the strings in them that could be taken for markup."""

    def __init__(self, specials: SpecialTexts, values: Mapping[str, Any]) -> None:
        self._specials = specials
        self._texts: list[str] = []  # of placeholder i
        self.suspects: list[str] = []
        self._open, self._close = "", ""
        self._collect(values)
        pair = self._free_pair()
        self.exhausted = pair is None  # the request uses every noncharacter: only caution is left
        if pair is not None:
            self._open, self._close = pair
        self._found = re.compile(f"{self._open}(\\d+){self._close}")

    def _free_pair(self) -> tuple[str, str] | None:
        for pair in _PAIRS:
            if not any(c in text for text in self.suspects for c in pair):
                return pair
        return None

    def _collect(self, value: Any, key: str | None = None) -> None:
        if isinstance(value, str):
            if not self._plain(value, key):
                self.suspects.append(value)
        elif isinstance(value, Mapping):
            for name, item in value.items():
                if isinstance(name, str) and not self._plain_key(name):
                    self.suspects.append(name)
                self._collect(item, name)
        elif isinstance(value, list | tuple):
            for item in value:
                self._collect(item)

    def _plain(self, text: str, key: str | None) -> bool:
        return (key == "role" and text in ROLES) or self._specials.harmless(text)

    def _plain_key(self, key: str) -> bool:
        return key in _KEYS or self._specials.harmless(key)

    # ---- placeholders

    def wrapped(self, value: Any, key: str | None = None) -> Any:
        """A copy of the value with placeholders for suspect strings."""
        if isinstance(value, str):
            return value if self._plain(value, key) else self._placeholder(value)
        if isinstance(value, Mapping):
            return {
                (name if not isinstance(name, str) or self._plain_key(name) else self._placeholder(name)): self.wrapped(
                    item, name if isinstance(name, str) else None
                )
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return type(value)(self.wrapped(item) for item in value)
        return value

    def _placeholder(self, text: str) -> str:
        core = text.strip()
        if not core:
            return text
        at = text.index(core)
        self._texts.append(core)
        return f"{text[:at]}{self._open}{len(self._texts) - 1}{self._close}{text[at + len(core) :]}"

    def _unwrapped(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._found.sub(lambda match: self._texts[int(match[1])], value) if self._open in value else value
        if isinstance(value, Mapping):
            return {self._unwrapped(name): self._unwrapped(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._unwrapped(item) for item in value]
        return value

    def encoder(self, dumps: Callable[[Any, dict[str, Any]], str]) -> Callable[[Any, dict[str, Any]], str]:
        """`tojson` over placeholders: JSON of the true values, as one placeholder if it holds any of them."""

        def encode(value: Any, options: dict[str, Any]) -> str:
            text = dumps(self._unwrapped(value), options)
            return text if self._specials.harmless(text) else self._placeholder(text)

        return encode

    def put_back(self, rendered: str, prompt: str) -> list[Segment] | None:
        """Segments of the prompt by a render with placeholders; None where the two do not agree."""
        segments: list[Segment] = []
        for index, piece in enumerate(self._found.split(rendered)):
            if index % 2:
                number = int(piece)
                if number >= len(self._texts):
                    return None
                segments.append(Segment(self._texts[number], False))
            elif self._open in piece or self._close in piece:
                return None  # a template cut a placeholder
            else:
                segments.append(Segment(piece, True))
        return merge(segments) if "".join(segment.text for segment in segments) == prompt else None

    # ---- marks and caution

    def unmark(self, rendered: str, prompt: str) -> list[Segment] | None:
        """Segments of the prompt by a render of the marked template; None where the two do not agree."""
        pieces = _MARK.split(rendered)
        segments: list[Segment] = []
        for index, piece in enumerate(pieces):
            if index % 2:
                if int(piece) >= len(self._specials.texts):
                    return None
                segments.append(Segment(self._specials.texts[int(piece)], True))
            else:
                segments.extend(self.cautious(piece))
        return merge(segments) if "".join(segment.text for segment in segments) == prompt else None

    def cautious(self, text: str) -> list[Segment]:
        """Text whose origin is not known: a special token in it counts only where the request could not have made
        it.
        """
        pattern = self._specials.pattern
        if pattern is None:
            return [Segment(text, False)]
        segments, end = [], 0
        for match in pattern.finditer(text):
            special = match[0]
            if not any(self._specials.supplied_by(special, suspect) for suspect in self.suspects):
                segments += [Segment(text[end : match.start()], False), Segment(special, True)]
                end = match.end()
        return merge([*segments, Segment(text[end:], False)])


# Marks use private-use characters of plane 16; a request that uses them too fails the comparison, which is safe.
_MARK_OPEN, _MARK_CLOSE = "\U0010fff0", "\U0010fff1"
_MARK = re.compile(f"{_MARK_OPEN}(\\d+){_MARK_CLOSE}")


def mark_literals(tree: nodes.Template, specials: SpecialTexts) -> nodes.Template:
    """Replaces special tokens by marks in what the template prints: its text, and literals that are printed or
    assigned directly or through `+`, `~` and `if`. Literals that are compared, searched for or passed on stay."""
    pattern = specials.pattern
    if pattern is None:
        return tree
    numbers = {text: index for index, text in enumerate(specials.texts)}

    def marked(text: str) -> str:
        return pattern.sub(lambda match: f"{_MARK_OPEN}{numbers[match[0]]}{_MARK_CLOSE}", text)

    def visit(node: nodes.Node | None) -> None:
        if isinstance(node, nodes.TemplateData):
            node.data = marked(node.data)
        elif isinstance(node, nodes.Const):
            if isinstance(node.value, str):
                node.value = marked(node.value)
        elif isinstance(node, nodes.Add):
            visit(node.left)
            visit(node.right)
        elif isinstance(node, nodes.Concat):
            for child in node.nodes:
                visit(child)
        elif isinstance(node, nodes.CondExpr):
            visit(node.expr1)
            visit(node.expr2)
        elif isinstance(node, nodes.Filter) and node.name == "trim":
            visit(node.node)

    for output in tree.find_all(nodes.Output):
        for child in output.nodes:
            visit(child)
    for assignment in tree.find_all(nodes.Assign):
        visit(assignment.node)
    return tree


def mark_text(text: str, specials: SpecialTexts) -> str:
    """The mark of a special token's text that the host itself hands to the template (bos_token and the like)."""
    return f"{_MARK_OPEN}{specials.texts.index(text)}{_MARK_CLOSE}" if text in specials.texts else text
