"""A C toolchain out of the hash-locked PyPI wheel `ziglang`: clang, lld and the glibc headers of any version.

What has been met, and is dealt with in the wrapper below:
  - Without -target zig means the processor it runs on. The target is always given, with a glibc old enough for what
    Python calls manylinux_2_28.
  - A first link builds zig's compiler-rt, which takes half a minute. C11 without 128-bit division or half floats needs
    nothing of it: -rtlib=none, and -z defs so that a need that appears is a link error.
  - Zig wants a writable cache. Each call gets its own copy of the small one that is filled here, once.
  - Unless optimising, zig switches UBSan on and links its own runtime: -fno-sanitize=undefined.
  - It ships no ASan runtime: --config=asan takes the machine's compiler.
"""

load("@bazel_tools//tools/cpp:cc_toolchain_config_lib.bzl", "feature", "flag_group", "flag_set", "tool_path")
load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("//tools/bazel:pip.bzl", "pip_install")

_GLIBC = "2.28"

_WRAPPER = """\
#!/bin/bash
# {version}, lock {digest}
set -eu
cache=$(mktemp -d "${{TMPDIR:-/tmp}}/zigcc.XXXXXXXX")
trap 'rm -rf "$cache"' EXIT
cp -r "{root}/warm/." "$cache"
export ZIG_GLOBAL_CACHE_DIR="$cache" ZIG_LOCAL_CACHE_DIR="$cache"
{command}
"""

_CC = """\
target={target}
for arg in "$@"; do  # A caller that compiles for another machine names it.
  case "$arg" in --target=* | -target) target= ;; esac
done
"{zig}" cc ${{target:+-target $target}} -fno-sanitize=undefined -rtlib=none "$@"
"""

_BUILD = """\
load("@{workspace}//tools/bazel:zig.bzl", "zig_cc_toolchain_config")

package(default_visibility = ["//visibility:public"])

exports_files(["zig-cc", "zig-ar"])

filegroup(
    name = "tools",
    srcs = ["zig-cc", "zig-ar"],
)

zig_cc_toolchain_config(
    name = "config",
    builtin_include = "{include}",
    cpu = "{cpu}",
    triple = "{triple}",
)

cc_toolchain(
    name = "cc",
    all_files = ":tools",
    ar_files = ":tools",
    compiler_files = ":tools",
    dwp_files = ":tools",
    linker_files = ":tools",
    objcopy_files = ":tools",
    strip_files = ":tools",
    supports_param_files = 1,
    toolchain_config = ":config",
    toolchain_identifier = "zig",
)

cc_toolchain_suite(
    name = "toolchain",
    toolchains = {{
        "aarch64": ":cc",
        "k8": ":cc",
    }},
)
"""

def _impl(rctx):
    python = rctx.read(rctx.attr.interpreter).strip()
    lock = rctx.path(rctx.attr.lock)
    pip_install(rctx, python, lock, "site", 1800)
    root = str(rctx.path("."))
    zig = str(rctx.path("site/ziglang/zig"))
    machine = rctx.execute(["uname", "-m"]).stdout.strip()
    if machine not in ("x86_64", "aarch64"):
        fail("the zig toolchain is set up for x86_64 and aarch64 Linux, found " + machine)
    triple = machine + "-linux-gnu"

    # Fill the cache that each call starts from: the C library's stubs and start files.
    rctx.report_progress("warming zig")
    rctx.file("probe.c", "#include <math.h>\nfloat probe(float x) { return sinf(x); }\nint main(void) { return probe(0) != 0; }\n", executable = False)
    warm = str(rctx.path("warm"))
    for out in [["-shared", "-fPIC", "-o", "probe.so"], ["-o", "probe"]]:
        res = rctx.execute(
            [zig, "cc", "-target", triple + "." + _GLIBC, "-O2", "-rtlib=none", "probe.c"] + out + ["-lm", "-lpthread"],
            environment = {"ZIG_GLOBAL_CACHE_DIR": warm, "ZIG_LOCAL_CACHE_DIR": warm},
        )
        if res.return_code != 0:
            fail("zig cc failed:\n" + res.stdout + res.stderr)
    version = rctx.execute([zig, "version"]).stdout.strip()

    # The path, the version and the lock are all that an action's key sees of the compiler.
    digest = str(hash(rctx.read(lock)))
    command = _CC.format(target = triple + "." + _GLIBC, zig = zig)
    rctx.file("zig-cc", _WRAPPER.format(version = version, digest = digest, root = root, command = command))
    rctx.file("zig-ar", _WRAPPER.format(version = version, digest = digest, root = root, command = '"%s" ar "$@"' % zig))
    rctx.file("BUILD.bazel", _BUILD.format(
        workspace = rctx.attr.workspace_name,
        include = root + "/site/ziglang/lib",
        cpu = {"x86_64": "k8"}.get(machine, machine),
        triple = triple,
    ), executable = False)

zig_cc = repository_rule(
    implementation = _impl,
    attrs = {
        "interpreter": attr.label(mandatory = True, allow_single_file = True),
        "lock": attr.label(mandatory = True, allow_single_file = True),
        "workspace_name": attr.string(default = "ds4"),
    },
)

_LINKS = [
    ACTION_NAMES.cpp_link_executable,
    ACTION_NAMES.cpp_link_dynamic_library,
    ACTION_NAMES.cpp_link_nodeps_dynamic_library,
]

_COMPILES = [ACTION_NAMES.c_compile, ACTION_NAMES.cpp_compile, ACTION_NAMES.assemble, ACTION_NAMES.preprocess_assemble]

def _config_impl(ctx):
    features = [
        feature(name = "supports_pic", enabled = True),
        feature(
            name = "strict_links",
            enabled = True,
            flag_sets = [flag_set(actions = _LINKS, flag_groups = [flag_group(flags = ["-Wl,-z,defs"])])],
        ),
        feature(
            name = "reproducible",
            enabled = True,
            flag_sets = [flag_set(actions = _COMPILES, flag_groups = [flag_group(flags = [
                "-no-canonical-prefixes",
                "-Wno-builtin-macro-redefined",
                "-D__DATE__=\"redacted\"",
                "-D__TIME__=\"redacted\"",
                "-D__TIMESTAMP__=\"redacted\"",
            ])])],
        ),
    ]
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        features = features,
        cxx_builtin_include_directories = [ctx.attr.builtin_include],
        toolchain_identifier = "zig",
        host_system_name = ctx.attr.triple,
        target_system_name = ctx.attr.triple,
        target_cpu = ctx.attr.cpu,
        target_libc = "glibc_" + _GLIBC,
        compiler = "clang",
        abi_version = "gnu",
        abi_libc_version = _GLIBC,
        tool_paths = [
            tool_path(name = name, path = path)
            for name, path in {
                "ar": "zig-ar",
                "cpp": "zig-cc",
                "dwp": "/bin/false",
                "gcc": "zig-cc",
                "gcov": "/bin/false",
                "ld": "zig-cc",
                "nm": "/bin/false",
                "objcopy": "/bin/false",
                "objdump": "/bin/false",
                "strip": "/bin/false",
            }.items()
        ],
    )

zig_cc_toolchain_config = rule(
    implementation = _config_impl,
    attrs = {
        "builtin_include": attr.string(mandatory = True),
        "cpu": attr.string(mandatory = True),
        "triple": attr.string(mandatory = True),
    },
    provides = [CcToolchainConfigInfo],
)
