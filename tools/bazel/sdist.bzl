"""A folder of files out of the one source distribution that a hash-locked requirements file names."""

load("//tools/bazel:pip.bzl", "pip_install")

# pip asks a source distribution's build backend for its metadata even when it only downloads: the backend is locked too,
# and nothing is built.
_DOWNLOAD = [
    "--require-hashes",
    "--no-deps",
    "--no-binary=:all:",
    "--no-build-isolation",
    "--no-input",
    "--disable-pip-version-check",
    "--quiet",
]

_EXTRACT = """\
import pathlib, sys, tarfile
prefix, out, *suffixes = sys.argv[1:]
archive, = pathlib.Path("sdist").iterdir()
pathlib.Path(out).mkdir()
found = 0
with tarfile.open(archive) as tar:
    for member in tar:
        folder, _, name = member.name.partition("/")[2].rpartition("/")
        if folder == prefix and member.isfile() and name.endswith(tuple(suffixes)):
            pathlib.Path(out, name).write_bytes(tar.extractfile(member).read())
            found += 1
if not found:
    sys.exit(f"{archive}: nothing in {prefix}")
"""

def _impl(rctx):
    python = rctx.read(rctx.attr.interpreter).strip()
    pip_install(rctx, python, rctx.path(rctx.attr.backend), "backend", rctx.attr.timeout)
    lock = rctx.path(rctx.attr.lock)
    rctx.report_progress("pip download -r " + lock.basename)
    res = rctx.execute(
        [python, "-m", "pip", "download"] + _DOWNLOAD + ["--dest=sdist", "-r", str(lock)],
        environment = {"PYTHONPATH": str(rctx.path("backend"))},
        timeout = rctx.attr.timeout,
    )
    if res.return_code != 0:
        fail("pip download failed:\n" + res.stdout + res.stderr)
    res = rctx.execute(
        [python, "-I", "-c", _EXTRACT, rctx.attr.prefix, rctx.attr.folder] + rctx.attr.suffixes,
        timeout = rctx.attr.timeout,
    )
    if res.return_code != 0:
        fail("unpacking failed:\n" + res.stdout + res.stderr)
    rctx.delete("sdist")
    rctx.delete("backend")
    rctx.file("BUILD.bazel", "exports_files([%r])\n" % rctx.attr.folder, executable = False)

sdist_folder = repository_rule(
    doc = "Files of one folder of a source distribution, as the label `folder`; the archive is checked by hash.",
    implementation = _impl,
    attrs = {
        "backend": attr.label(mandatory = True, allow_single_file = True, doc = "lock of the build backend"),
        "folder": attr.string(mandatory = True, doc = "what the folder is called here"),
        "interpreter": attr.label(mandatory = True, allow_single_file = True),
        "lock": attr.label(mandatory = True, allow_single_file = True),
        "prefix": attr.string(mandatory = True, doc = "the folder's path inside the distribution"),
        "suffixes": attr.string_list(mandatory = True),
        "timeout": attr.int(default = 1800),
    },
)
