"""The one list of native sources: Bazel loads it, Nix and tools/native_cc.py read the JSON behind the `=`."""

NATIVE = {
    "copts": ["-std=c11", "-O3", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-ffp-contract=off", "-D_GNU_SOURCE"],
    "linkopts": ["-lm", "-lpthread"],
    "groups": [
        {"name": "bridge", "srcs": [
            "bridge/bridge.c",
            "bridge/layout.c",
            "engine/draw.c",
            "engine/families/llama.c",
            "engine/forward.c",
            "engine/gguf.c",
            "engine/hash.c",
            "engine/model.c",
            "engine/plan.c",
            "engine/rope.c",
            "engine/session.c",
            "engine/snapshot.c",
            "engine/step.c"
        ], "copts": [], "cpu": ""},
        {"name": "portable", "srcs": [
            "backends/cpu/cpuid.c",
            "ops/compose.c"
        ], "copts": [], "cpu": ""},
        {"name": "avx2", "srcs": [], "copts": ["-mavx2", "-mfma", "-mf16c"], "cpu": "x86_64"},
        {"name": "avx512", "srcs": [], "copts": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx2", "-mfma", "-mf16c"], "cpu": "x86_64"},
        {"name": "neon", "srcs": [], "copts": [], "cpu": "aarch64"}
    ]
}
