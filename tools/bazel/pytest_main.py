"""Runs pytest on the files named in argv, for pytest_test targets.

Paths in the variables that DS4_RUNFILES names are made absolute, so that a test may change its folder; everything that
a library likes to write goes to the test's own folder; the home folder is empty.
"""

import os
import sys

import pytest


def share(args: list[str]) -> list[str]:
    """The arguments with those test files that are this shard's: every n-th, so that long ones spread."""
    shards, index = int(os.environ.get("TEST_TOTAL_SHARDS", "1")), int(os.environ.get("TEST_SHARD_INDEX", "0"))
    if status := os.environ.get("TEST_SHARD_STATUS_FILE"):
        open(status, "a").close()  # says that shards are known here
    files = [arg for arg in args if arg.endswith(".py")]
    others = set(files) - set(files[index::shards])
    return [arg for arg in args if arg not in others]


def main() -> int:
    args = share(sys.argv[1:])
    for name in os.environ.get("DS4_RUNFILES", "").split():
        os.environ[name] = os.path.abspath(os.environ[name])
    scratch = os.environ.get("TEST_TMPDIR")
    if scratch:
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            os.environ[name] = os.path.join(scratch, name.lower())
            os.makedirs(os.environ[name], exist_ok=True)
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = os.path.join(scratch, "hypothesis")
        args.append("--basetemp=" + os.path.join(scratch, "pytest"))
    os.environ.setdefault("CI", "true")  # hypothesis: the same examples in every run, and no deadline
    if os.environ.get("XML_OUTPUT_FILE"):
        args.append("--junitxml=" + os.environ["XML_OUTPUT_FILE"])
    if os.environ.get("TESTBRIDGE_TEST_ONLY"):  # bazel test --test_filter=...
        args += ["-k", os.environ["TESTBRIDGE_TEST_ONLY"]]
    return int(pytest.main(args))


if __name__ == "__main__":
    sys.exit(main())
