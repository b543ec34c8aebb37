"""Pages of the review as HTML; the same for the local page and for the files of --static."""

from __future__ import annotations

import base64
import functools
import hashlib
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2

from goldens.review.views import View
from parity.pending import Broken

_HERE = Path(__file__).parent
_NAMES = ("review.css", "review.js")
SHOWN = 10_000  # characters of either end of a stretch of text


@dataclass(frozen=True)
class Decision:
    """One that was taken on this page since it was started."""

    title: str
    golden: str
    verdict: str
    files: tuple[str, ...] = ()


@dataclass
class Context:
    """What every page knows. token None: nothing can be decided here (--static)."""

    views: list[View]
    broken: list[Broken]
    token: str | None
    reviewer: str = ""
    decided: list[Decision] = field(default_factory=list)
    flash: Decision | None = None

    @property
    def components(self) -> list[tuple[str, int]]:
        names = [view.pending.component for view in self.views]
        return sorted((name, names.count(name)) for name in set(names))

    def among(self, component: str) -> list[View]:
        return [view for view in self.views if component in ("", view.pending.component)]


def order(views: list[View]) -> list[View]:
    """Largest difference first; equals by name."""
    return sorted(views, key=lambda view: (-view.size, view.pending.golden, view.pending.title))


def overview(context: Context, component: str = "") -> str:
    return _render("overview.html", context, component=component, listed=context.among(component), current=None)


def detail(
    context: Context,
    current: View,
    component: str = "",
    error: Exception | None = None,
    draft: dict[str, str] | None = None,
) -> str:
    """The page of one pending. error: why a decision was refused; draft: what the person had typed."""
    listed = context.among(component)
    at = next((i for i, view in enumerate(listed) if view.pending.id == current.pending.id), 0)
    before = listed[at - 1] if at > 0 else None
    behind = listed[at + 1] if at + 1 < len(listed) else None
    return _render(
        "detail.html",
        context,
        component=component,
        listed=listed,
        current=current,
        at=at,
        before=before,
        behind=behind,
        error=error,
        draft=draft or {},
    )


def message(context: Context, title: str, text: str) -> str:
    """A page with one thing to say."""
    return _render("message.html", context, component="", listed=[], current=None, title=title, text=text)


def asset(name: str) -> tuple[str, str] | None:
    """(content type, text) of a file that pages load."""
    if name not in _NAMES:
        return None
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return f"{kind}; charset=utf-8", (_HERE / name).read_text(encoding="utf-8")


def _render(template: str, context: Context, **values: Any) -> str:
    static = context.token is None

    def query(component: str) -> str:
        return f"?component={quote(component)}" if component else ""

    def home(component: str = "") -> str:
        return "index.html" if static else "/" + query(component)

    def page(view: View, component: str = "") -> str:
        return f"{view.pending.id}.html" if static else f"/p/{view.pending.id}{query(component)}"

    return (
        _templates()
        .get_template(template)
        .render(
            context=context,
            static=static,
            home=home,
            page=page,
            css=_inline("review.css") if static else "",
            js=_inline("review.js") if static else "",
            policy=_policy() if static else "",
            **values,
        )
    )


@functools.cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"bytes": readable_bytes, "ago": ago, "weight": weight, "clip": clip}
    return made


@functools.cache
def _inline(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


@functools.cache
def _policy() -> str:
    """What a page of --static may do: run and show what it carries, and nothing else."""

    def source(name: str) -> str:
        digest = base64.b64encode(hashlib.sha256(_inline(name).encode("utf-8")).digest()).decode("ascii")
        return f"'sha256-{digest}'"

    parts = ["default-src 'none'", f"style-src {source('review.css')}", f"script-src {source('review.js')}"]
    return "; ".join([*parts, "img-src data:", "base-uri 'none'"])


def readable_bytes(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"


def clip(text: str) -> str:
    """A stretch of text, its middle left out where it is longer than anybody reads."""
    if len(text) <= 2 * SHOWN:
        return text
    return f"{text[:SHOWN]}⟨{len(text) - 2 * SHOWN:,} characters⟩{text[-SHOWN:]}"


def weight(size: int) -> int:
    """Width of a difference's bar in steps of 1..12: its order of magnitude."""
    return max(1, min(12, round(2 * math.log10(size + 1)))) if size else 0


def ago(created: str) -> str:
    """How long ago, in words."""
    try:
        then = datetime.fromisoformat(created)
        seconds = (datetime.now(UTC) - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds()
    except ValueError:
        return created
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' * (count != 1)} ago"
    return "just now"
