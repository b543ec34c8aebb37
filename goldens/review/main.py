"""Golden results that wait for a person.

review [--port N]            the page, on 127.0.0.1
review --list [--json]       what waits, for scripts; exit status 1 if anything does, 0 if nothing
review --static DIR          the same pages as files, to read (a CI artefact); exit status 0
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from ds4.errors import Ds4Error

from goldens.review import app, pages
from goldens.review.pages import Context
from goldens.review.views import View, view
from parity import goldens, pending


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="review", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, help=f"port of the page; 0: any free one [{app.PORT}, or a free one]")
    parser.add_argument("--list", action="store_true", help="print what waits and exit")
    parser.add_argument("--json", action="store_true", help="with --list: as JSON")
    parser.add_argument("--static", type=Path, metavar="DIR", help="write the pages into a folder and exit")
    args = parser.parse_args(argv)
    if args.json and not args.list:
        parser.error("--json goes with --list")
    root = pending.workspace()
    try:
        if args.list:
            return listing(root, args.json)
        if args.static is not None:
            return static(root, _from_caller(args.static))
        app.serve(root, args.port, lambda url: print(f"golden review: {url}  (Ctrl-C ends it)", flush=True))
    except (Ds4Error, OSError, OverflowError) as error:
        print(f"review: {error}", file=sys.stderr)
        return 2
    return 0


def listing(root: Path, as_json: bool) -> int:
    """Prints what waits, largest difference first. Returns the exit status."""
    context = _context(root)
    if as_json:
        rows = [_row(one) for one in context.views]
        broken = [vars(one) for one in context.broken]
        print(json.dumps({"pending": rows, "broken": broken}, indent=1))
    else:
        for one in context.views:
            stale = "  (stale)" if one.standing.stale else ""
            title = one.pending.title
            print(f"{pages.readable_bytes(one.size):>10}  goldens/{one.pending.golden}  {title}: {one.summary}{stale}")
        for bad in context.broken:
            print(f"{'':>10}  {bad.source}: no pending: {bad.message}")
        print(f"{len(context.views)} pending" if context.views or context.broken else "nothing pending")
    return 1 if context.views or context.broken else 0


def static(root: Path, folder: Path) -> int:
    """Writes the pages into a folder. Returns the exit status."""
    context = _context(root)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(pages.overview(context), encoding="utf-8")
    for one in context.views:
        (folder / f"{one.pending.id}.html").write_text(pages.detail(context, one), encoding="utf-8")
    print(f"{len(context.views)} pending: {folder / 'index.html'}")
    return 0


def _context(root: Path) -> Context:
    waiting, broken = goldens.open_pendings(root)
    return Context(pages.order([view(one, where) for one, where in waiting]), broken, None)


def _row(one: View) -> dict[str, Any]:
    about = one.pending
    return {
        "id": about.id,
        "component": about.component,
        "golden": f"goldens/{about.golden}",
        "case": about.case,
        "kind": about.kind,
        "why": about.why,
        "bytes": one.size,
        "summary": one.summary,
        "stale": one.standing.stale,
        "command": about.command,
        "created": about.created,
        "source": about.source,
    }


def _from_caller(path: Path) -> Path:
    """A path as the caller's folder has it: `bazel run` and ./dev start programs elsewhere."""
    return Path(os.environ.get("BUILD_WORKING_DIRECTORY") or os.environ.get("DS4_CALLER_DIR") or ".", path)


if __name__ == "__main__":
    sys.exit(main())
