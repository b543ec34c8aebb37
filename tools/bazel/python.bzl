"""Finds a CPython of the wanted version and registers it as the Python toolchain.

Programs and tests run under an empty virtual environment of it, so that what
happens to be installed on the machine cannot stand in for a missing dependency.
"""

_BUILD = """\
load("@bazel_tools//tools/python:toolchain.bzl", "py_runtime_pair")

package(default_visibility = ["//visibility:public"])

exports_files(["python_path.txt"])

py_runtime(
    name = "py3_runtime",
    interpreter_path = "{venv_python}",
    python_version = "PY3",
    stub_shebang = "#!{venv_python}",
)

py_runtime_pair(
    name = "py_runtime_pair",
    py3_runtime = ":py3_runtime",
)

toolchain(
    name = "toolchain",
    toolchain = ":py_runtime_pair",
    toolchain_type = "@bazel_tools//tools/python:toolchain_type",
)

cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
)
"""

_PROBE = """\
import sys, sysconfig
print(sys.executable)
print("%d.%d" % sys.version_info[:2])
print("%d.%d.%d" % sys.version_info[:3])
print(sysconfig.get_paths()["include"])
"""

def _impl(rctx):
    version = rctx.attr.version
    forced = rctx.os.environ.get("DS4_PYTHON", "")
    candidates = [forced] if forced else ["python" + version, "python3"]
    tried = []
    for cand in candidates:
        path = cand if cand.startswith("/") else rctx.which(cand)
        if not path:
            tried.append(cand + ": not on PATH")
            continue

        # -I and a working directory of / : neither PYTHONPATH nor a
        # .python-version file decides what a pyenv shim starts.
        res = rctx.execute([path, "-I", "-c", _PROBE], working_directory = "/")
        if res.return_code != 0:
            tried.append("%s: %s" % (path, res.stderr.strip()))
            continue
        exe, found, full, include = res.stdout.strip().split("\n")
        if found != version:
            tried.append("%s is Python %s" % (exe, found))
            continue

        # The path is all that an action's key sees of the interpreter.
        venv = "venv-%s-%d" % (full, hash(exe))
        res = rctx.execute([exe, "-I", "-m", "venv", "--without-pip", venv])
        if res.return_code != 0:
            tried.append("%s -m venv: %s" % (exe, (res.stdout + res.stderr).strip()))
            continue
        rctx.file("python_path.txt", exe + "\n", executable = False)
        rctx.file("BUILD.bazel", _BUILD.format(venv_python = rctx.path(venv + "/bin/python3")), executable = False)
        if rctx.path(include).exists:
            rctx.symlink(include, "include")
        return
    fail("no Python %s found (%s); set DS4_PYTHON=/path/to/python" % (version, "; ".join(tried)))

local_python = repository_rule(
    implementation = _impl,
    attrs = {"version": attr.string(mandatory = True)},
    environ = ["PATH", "DS4_PYTHON"],
    configure = True,
)
