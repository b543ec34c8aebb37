"""The native engine's targets, made of the one list in //native:sources.bzl."""

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
            copts = sources["copts"] + group["copts"],
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
            copts = sources["copts"],
            data = data,
            env = env,
            linkopts = sources["linkopts"],
            linkstatic = 1,
            deps = [engine],
        )
