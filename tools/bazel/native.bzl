"""The native engine's targets, made of the one list in //native:sources.bzl."""

# The sanitizers make the big kernels' optimisation take minutes; without it gcc warns that it unrolls nothing.
_OPTIMISATION = select({
    "//tools/bazel:sanitize": [
        "-O1",
        "-Wno-error",
    ],
    "//conditions:default": [],
})

def native_engine(name, sources, headers):
    """A cc_library for each ISA group, and one named `name` over those that this processor family compiles.

    Args:
      name: the library over the groups.
      sources: the NATIVE dictionary of sources.bzl.
      headers: every header and every file that sources include.
    """
    always, by_cpu = [], {}
    for group in sources["groups"]:
        if not group["srcs"]:
            continue
        one = "%s_%s" % (name, group["name"])
        native.cc_library(
            name = one,
            srcs = group["srcs"],
            copts = sources["copts"] + group["copts"] + _OPTIMISATION,
            linkstatic = 1,
            tags = ["manual"],  # //... must not compile another processor's
            textual_hdrs = headers,
            alwayslink = 1,
        )
        if group["cpu"]:
            by_cpu.setdefault(group["cpu"], []).append(one)
        else:
            always.append(one)
    deps = always
    for cpu in sorted(by_cpu):
        deps = deps + select({
            "//tools/bazel:" + cpu: by_cpu[cpu],
            "//conditions:default": [],
        })
    native.cc_library(
        name = name,
        deps = deps,
        alwayslink = 1,
    )

def native_tests(srcs, sources, headers, engine, data = [], env = {}):
    """A cc_test for each C program, linked with the engine's objects and named after its file.

    Args:
      srcs: the programs.
      sources: the NATIVE dictionary of sources.bzl.
      headers: what they may include.
      engine: the engine's library.
      data: files that the programs read.
      env: where they find them.
    """
    for src in srcs:
        native.cc_test(
            name = src.split("/")[-1][:-len(".c")],
            size = "medium",
            srcs = [src] + headers,
            copts = sources["copts"] + _OPTIMISATION,
            data = data,
            env = env,
            linkopts = sources["linkopts"],
            linkstatic = 1,
            tags = ["native"],  # what --config=asan runs
            deps = [engine],
        )

def _cross_impl(ctx):
    objects = []
    for group in json.decode(ctx.attr.groups):
        for src in ctx.files.srcs:
            if src.short_path[len(ctx.label.package) + 1:] not in group["srcs"]:
                continue
            out = ctx.actions.declare_file("_cross/%s/%s.o" % (ctx.attr.triple, src.short_path))
            objects.append(out)
            ctx.actions.run(
                executable = ctx.executable._zig_cc,
                arguments = ["-target", ctx.attr.triple] + ctx.attr.copts + group["copts"] + ["-I.", "-c", src.path, "-o", out.path],
                inputs = [src] + ctx.files.hdrs,
                outputs = [out],
                mnemonic = "CrossCompile",
                progress_message = "Compiling %s for %s" % (src.short_path, ctx.attr.triple),
            )
    library = ctx.actions.declare_file("_cross/%s/%s" % (ctx.attr.triple, ctx.attr.library))
    args = ctx.actions.args()
    args.add_all(["-target", ctx.attr.triple, "-shared", "-o", library])
    args.add_all(objects)
    args.add_all(ctx.attr.linkopts)
    ctx.actions.run(
        executable = ctx.executable._zig_cc,
        arguments = [args],
        inputs = objects,
        outputs = [library],
        mnemonic = "CrossLink",
        progress_message = "Linking %s for %s" % (ctx.attr.library, ctx.attr.triple),
    )
    return [DefaultInfo(files = depset([library]), runfiles = ctx.runfiles([library]))]

_cross_library = rule(
    implementation = _cross_impl,
    attrs = {
        "copts": attr.string_list(),
        "groups": attr.string(mandatory = True),
        "hdrs": attr.label_list(allow_files = True),
        "library": attr.string(mandatory = True),
        "linkopts": attr.string_list(),
        "srcs": attr.label_list(allow_files = [".c"]),
        "triple": attr.string(mandatory = True),
        "_zig_cc": attr.label(default = "@zig_cc//:zig-cc", allow_single_file = True, executable = True, cfg = "exec"),
    },
)

def native_cross(name, sources, headers, triple, library, linkopts = []):
    """The engine compiled and linked for another machine: proves that it builds there, not that it runs.

    Args:
      name: the target.
      sources: the NATIVE dictionary of sources.bzl.
      headers: every header.
      triple: zig's name of the machine, such as aarch64-macos.
      library: file name of the library there.
      linkopts: further flags of the link.
    """
    cpu = triple.split("-")[0]
    groups = [g for g in sources["groups"] if g["cpu"] in ("", cpu) and g["srcs"]]
    srcs = {}  # a source may stand in two groups
    for group in groups:
        for src in group["srcs"]:
            srcs[src] = None
    _cross_library(
        name = name,
        srcs = srcs.keys(),
        hdrs = headers,
        copts = sources["copts"],
        groups = json.encode(groups),
        library = library,
        linkopts = sources["linkopts"] + linkopts,
        triple = triple,
    )
