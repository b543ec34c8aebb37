"""Writes BUILD.bazel and requirements.bzl for a folder that pip installed into.

Run by pip.bzl as: python -I pip_repo.py REPOSITORY LOCK SITE, in the repository's root.
"""

import importlib.metadata as md
import json
import os
import re
import sys

from pip._vendor.packaging.requirements import Requirement


def canon(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def target(name):
    return canon(name).replace("-", "_")


def lock_extras(lock):
    """{distribution: extras asked for} off the lock's own lines."""
    extras = {}
    with open(lock, encoding="utf-8") as f:
        for line in f:
            m = re.match(r"([A-Za-z0-9._-]+)(\[[^\]]*\])?\s*==", line)
            if m:
                extras[canon(m[1])] = [e.strip() for e in (m[2] or "[]")[1:-1].split(",") if e.strip()]
    return extras


def placed(path):
    """Where `pip --target` put a file of RECORD: programs are listed as of a prefix and lie in bin/."""
    return path[len("../../") :] if path.startswith("../../bin/") else path


def usable(path):
    # Neither glob results nor runfiles manifests of Bazel < 7 carry blanks.
    return not re.search(r"[\s:\\*?\[\]]", path) and "__pycache__" not in path and not path.startswith(("..", "/"))


def main():
    repo, lock, site = sys.argv[1:]
    extras = lock_extras(lock)
    files, edges = {}, {}
    for dist in md.distributions(path=[site]):
        name = canon(dist.metadata["Name"])
        if name not in extras:
            sys.exit(f"{name}: installed but not in {lock}")
        paths = (placed(str(f)) for f in dist.files or ())
        files[name] = sorted({p for p in paths if usable(p) and os.path.isfile(os.path.join(site, p))})
        want = set()
        for text in dist.requires or ():
            req = Requirement(text)
            envs = [{"extra": e} for e in extras[name] or [""]]
            if canon(req.name) in extras and (req.marker is None or any(req.marker.evaluate(e) for e in envs)):
                want.add(canon(req.name))
        edges[name] = want
    missing = sorted(set(extras) - set(files))
    if missing:
        print("not for this platform, left out:", ", ".join(missing))

    # Bazel refuses cycles: drop the edges that close one.
    deps, state = {n: [] for n in files}, {}

    def visit(name):
        state[name] = "open"
        for dep in sorted(edges[name]):
            if dep not in files or state.get(dep) == "open":
                continue
            deps[name].append(dep)
            if dep not in state:
                visit(dep)
        state[name] = "done"

    for name in sorted(files):
        if name not in state:
            visit(name)

    # Runfiles and sandboxes get one symlink for a folder that one distribution
    # owns alone, not one for each of its files (numpy: 3 in place of 1,044).
    owners = {}
    for name, paths in files.items():
        for path in paths:
            parts = path.split("/")
            for i in range(1, len(parts) + 1):
                owners.setdefault("/".join(parts[:i]), set()).add(name)

    out = ['package(default_visibility = ["//visibility:public"])', ""]
    for name in sorted(files):
        tops = set()
        for path in files[name]:
            parts = path.split("/")
            prefixes = ("/".join(parts[:i]) for i in range(1, len(parts) + 1))
            tops.add(next(prefix for prefix in prefixes if owners[prefix] == {name}))
        out += [
            "py_library(",
            f"    name = {json.dumps(target(name))},",
            f"    data = {json.dumps([f'{site}/{t}' for t in sorted(tops)])},",
            f"    imports = [{json.dumps(site)}],",
            f"    deps = {json.dumps([':' + target(d) for d in deps[name]])},",
            ")",
            "",
        ]
    with open("BUILD.bazel", "w", encoding="utf-8") as f:
        f.write("\n".join(out))
    with open("requirements.bzl", "w", encoding="utf-8") as f:
        f.write(
            "_ALL = " + json.dumps({n: f"@{repo}//:" + target(n) for n in sorted(files)}) + "\n\n"
            "def requirement(name):\n"
            '    key = name.lower().replace("_", "-").replace(".", "-")\n'
            "    if key not in _ALL:\n"
            '        fail("%s is not in the lock" % name)\n'
            "    return _ALL[key]\n\n"
            "all_requirements = _ALL.values()\n"
        )


main()
