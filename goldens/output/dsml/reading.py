"""What a text says that is there whole."""

from __future__ import annotations

import json
import re

D = "｜DSML｜"
TAGS = (D, "DSML｜", "")
WHITE = " \t\n\r"
Atom = tuple[str, int, str]  # verb, index, text: a delta of one character, or another event whole
OPENER = re.compile("(?:\n\n)?<(?:｜DSML｜|DSML｜|)tool_calls>")
STAND = "\ue000"  # before a "&" that "&amp;" stands for, which is not certain while only its own "&" is there


class End(Exception):
    """The text ends here."""


class Bad(Exception):
    """The block is malformed; its text ends at .at."""

    def __init__(self, at: int) -> None:
        self.at = at


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def unescaped(text: str, ampersand: str = "&") -> str:
    entities = {"lt": "<", "gt": ">", "amp": ampersand, "quot": '"', "apos": "'"}
    return re.sub("&(lt|gt|amp|quot|apos);", lambda found: entities[found[1]], text)


class Reading:
    """One block, read out of a text that is there whole."""

    def __init__(self, text: str, at: int, out: list[Atom]) -> None:
        self.text, self.at, self.out, self.call = text, at, out, -1

    def show(self, text: str) -> None:
        self.out += [("arguments", self.call, character) for character in text]

    def tag(self, child: str, own: str) -> tuple[str, bool]:
        """The tag that comes next: how it is written, and whether it closes."""
        while self.text[self.at : self.at + 1] and self.text[self.at] in WHITE:
            self.at += 1
        rest = self.text[self.at :]
        for prefix in TAGS:
            for closing, tag in ((False, f"<{prefix}{child}"), (True, f"</{prefix}{own}>")):
                if rest.startswith(tag):
                    self.at += len(tag)
                    return prefix, closing
                if tag.startswith(rest):
                    raise End
        raise Bad(self.at)

    def head(self) -> dict[str, str]:
        found: dict[str, str] = {}
        twice = False
        while True:
            attribute = re.compile(f'[{WHITE}]+([^{WHITE}>="</]+)="([^"]*)"').match(self.text, self.at)
            if attribute is None:
                break
            twice = twice or attribute[1] in found
            found[attribute[1]] = unescaped(attribute[2])
            self.at = attribute.end()
        unfinished = re.compile(f'[{WHITE}]*>|[{WHITE}]+(?:[^{WHITE}>="</]+(?:=(?:"[^"]*)?)?)?').match(
            self.text, self.at
        )
        if unfinished is not None:
            self.at = unfinished.end()
        complete = unfinished is not None and unfinished[0].strip(WHITE) == ">"
        if self.at == len(self.text) and not complete:
            raise End
        if not complete:
            raise Bad(self.at)
        if twice or "name" not in found:
            raise Bad(self.at)
        return found

    def block(self) -> None:
        while True:
            _, closing = self.tag("invoke", "tool_calls")
            if closing:
                if self.call < 0:
                    raise Bad(self.at)
                return
            name = self.head()["name"]
            if not name:
                raise Bad(self.at)
            self.call += 1
            self.out.append(("call", self.call, name))
            names = self.members("invoke", 0)
            self.show("}" if names else "{}")
            self.out.append(("end", self.call, ""))

    def members(self, own: str, depth: int, prefix: str | None = None) -> set[str]:
        """The parameters up to the close tag. prefix: the first one's tag is read already."""
        names: set[str] = set()
        while True:
            if prefix is None:
                prefix, closing = self.tag("parameter", own)
                if closing:
                    return names
            found = self.head()
            string = found.get("string")
            if string not in (None, "true", "false") or found["name"] in names:
                raise Bad(self.at)
            self.show(", " if names else "{" if depth == 0 else "")
            names.add(found["name"])
            self.show(f'"{quoted(found["name"])}": ')
            self.value(prefix, string, depth)
            prefix = None

    def value(self, prefix: str, string: str | None, depth: int) -> None:
        if string is None:
            start = self.at
            while self.text[start : start + 1] and self.text[start] in WHITE:
                start += 1
            for nested in TAGS[:2] if prefix else ("",):
                tag = f"<{nested}parameter"
                if self.text.startswith(tag, start):
                    self.at = start + len(tag)
                    if depth == 16:
                        raise Bad(self.at)
                    self.show("{")
                    self.members("parameter", depth + 1, nested)
                    self.show("}")
                    return
                if tag.startswith(self.text[start:]):
                    raise End
        closes = "</(?:｜DSML｜|DSML｜)parameter>" if prefix else "</parameter>"
        close = re.compile(closes).search(self.text, self.at)
        raw = self.text[self.at : len(self.text) if close is None else close.start()]
        self.at = len(self.text) if close is None else close.end()
        if string == "false":
            self.show(raw.strip(WHITE))
            if close is None:
                raise End
            if not raw.strip(WHITE):
                self.show("null")
            elif not is_json(raw):
                raise Bad(self.at)
            return
        value = (
            raw.replace("&lt;/｜DSML｜parameter>", "</｜DSML｜parameter>") if prefix else unescaped(raw, STAND + "&")
        )
        self.show('"' + quoted(value))
        if close is None:
            raise End
        self.show('"')


def is_json(text: str) -> bool:
    def never(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=never)
    except ValueError:
        return False
    return True


def said(text: str, thinking: bool, tools: bool) -> tuple[list[Atom], str, int]:
    """The events of a whole text, where it ended, and where the block began that it ended in."""
    out: list[Atom] = []
    at = 0
    if thinking:
        reasoning, mark, _ = text.partition("</think>")
        out += [("reasoning", 0, character) for character in reasoning]
        if not mark:
            return out, "reasoning", 0
        out.append(("reasoned", 0, ""))
        at = len(reasoning) + len(mark)
    while True:
        found = OPENER.search(text, at) if tools else None
        out += [("content", 0, character) for character in text[at : len(text) if found is None else found.start()]]
        if found is None:
            return out, "stop", 0
        reading = Reading(text, found.end(), out)
        try:
            reading.block()
        except Bad as bad:
            at = bad.at
            out.append(("void", 0, text[found.start() : at]))
            continue
        except End:
            return out, "unterminated", found.start()
        out.append(("block", 0, text[found.start() : reading.at]))
        return out, "tool_calls", 0
