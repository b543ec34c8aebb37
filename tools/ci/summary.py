"""Counts test cases off Bazel's event files and prints the line that a CI reads: `N passed, N failed, N skipped`.

    python3 summary.py [--step NAME=STATUS]... EVENTS...

EVENTS are files of `bazel test --build_event_json_file`, so that only tests of those runs count, never a test.xml that
an earlier run left. A target that does not build counts as one failure, and so does a test that ends without a failing
case to show for it (a crash, a timeout). --step counts a check outside Bazel by its exit status. Exit status: 0 if
nothing failed and something passed.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any


def cases(xml: Path) -> Counter[str]:
    """Outcomes of the cases of one JUnit file."""
    counts: Counter[str] = Counter()
    for case in ET.parse(xml).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            counts["failed"] += 1
        elif case.find("skipped") is not None:
            counts["skipped"] += 1
        else:
            counts["passed"] += 1
    return counts


def of_test(result: dict[str, Any]) -> Counter[str]:
    """Outcomes of one test target's run."""
    counts: Counter[str] = Counter()
    for output in result.get("testActionOutput", ()):
        if output["name"] == "test.xml":
            path = Path(urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path))
            try:
                counts = cases(path)
            except (OSError, ET.ParseError):
                counts.clear()
    if result.get("status") == "PASSED":
        counts["passed"] += not counts.total()
    elif not counts["failed"]:
        counts["failed"] = 1
    return counts


def of_events(path: Path) -> tuple[Counter[str], list[str]]:
    """Outcomes of one `bazel test`, and the labels that failed."""
    tests: dict[tuple[str, int], Counter[str]] = {}
    broken: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        identity = event["id"]
        if "testResult" in identity:
            label, shard = identity["testResult"]["label"], identity["testResult"].get("shard", 0)
            tests[label, shard] = of_test(event["testResult"])  # a later attempt takes the place of an earlier one
        elif "targetCompleted" in identity:
            label = identity["targetCompleted"]["label"]
            if event.get("aborted", {}).get("reason") == "SKIPPED":
                tests[label, 0] = Counter(skipped=1)
            elif not event.get("completed", {}).get("success"):
                broken[label] = "does not build"
        elif event.get("aborted", {}).get("reason") in ("LOADING_FAILURE", "ANALYSIS_FAILURE"):
            broken[json.dumps(next(iter(identity.values())))] = event["aborted"]["reason"]
    total = sum(tests.values(), Counter[str]())
    total["failed"] += len(broken)
    named = sorted({label for (label, _), counts in tests.items() if counts["failed"]})
    return total, named + [f"{label} ({why})" for label, why in broken.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description="counts test cases off Bazel's event files")
    parser.add_argument("--step", action="append", default=[], metavar="NAME=STATUS")
    parser.add_argument("events", nargs="*", type=Path)
    args = parser.parse_args()
    total: Counter[str] = Counter()
    failures: list[str] = []
    for path in args.events:
        if path.exists():
            counts, named = of_events(path)
        else:
            counts, named = Counter(failed=1), [f"{path.name}: no such run"]
        total += counts
        failures += named
    for step in args.step:
        name, _, status = step.rpartition("=")
        outcome = "passed" if status == "0" else "failed"
        total[outcome] += 1
        if outcome == "failed":
            failures.append(name)
    for failure in failures:
        print(f"failed: {failure}")
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"{total['passed']} passed, {total['failed']} failed{skipped}")
    return 0 if total["passed"] and not total["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
