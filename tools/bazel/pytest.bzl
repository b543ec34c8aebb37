"""py_test that runs pytest, with the engine and the embedded model where a test asks for them."""

load("@pypi//:requirements.bzl", "requirement")

LIBRARY = "//native:libds4.so"
MODEL = "@smollm2//:SmolLM2-135M-Instruct.Q4_1.gguf"

def pytest_test(name, srcs, deps = [], data = [], args = [], engine = False, env = {}, **kwargs):
    """One pytest process over the files of one room.

    Args:
      name: the target.
      srcs: its test files; helpers and conftest.py go to deps.
      deps: py_library labels.
      data: further files.
      args: further arguments of pytest.
      engine: whether the tests load libds4 and may open the embedded model (DS4_LIBRARY, DS4_EMBEDDED_MODEL).
      env: further variables.
      **kwargs: passed to py_test.
    """
    env = dict(env)
    if engine:
        data = data + [LIBRARY, MODEL]
        env.update({
            "DS4_EMBEDDED_MODEL": "$(rootpath %s)" % MODEL,
            "DS4_LIBRARY": "$(rootpath %s)" % LIBRARY,
            "DS4_RUNFILES": "DS4_EMBEDDED_MODEL DS4_LIBRARY",
        })
    native.py_test(
        name = name,
        srcs = ["//tools/bazel:pytest_main.py"] + srcs,
        main = "//tools/bazel:pytest_main.py",
        args = ["$(rootpath %s)" % s for s in srcs] + ["-c", "$(rootpath //:pytest.ini)", "--rootdir=."] + args,
        data = data + ["//:pytest.ini"],
        env = env,
        deps = deps + [requirement(p) for p in ["pytest", "hypothesis", "pytest-benchmark", "syrupy"]],
        **kwargs
    )
