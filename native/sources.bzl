"""The one list of native sources: Bazel loads it, Nix and tools/native_cc.py read the JSON behind the `=`."""

NATIVE = {
    "copts": ["-std=c11", "-O3", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-ffp-contract=off", "-D_GNU_SOURCE"],
    "linkopts": ["-lm", "-lpthread"],
    "groups": [
        {"name": "bridge", "srcs": [
            "bridge/bridge.c",
            "bridge/layout.c",
            "bridge/ops_probe.c",
            "bridge/probe.c",
            "engine/draw.c",
            "engine/families/deepseek4.c",
            "engine/families/llama.c",
            "engine/forward.c",
            "engine/gguf.c",
            "engine/hash.c",
            "engine/model.c",
            "engine/plan.c",
            "engine/plan_dsv4.c",
            "engine/plan_llama.c",
            "engine/rope.c",
            "engine/session.c",
            "engine/snapshot.c",
            "engine/step.c"
        ], "copts": [], "cpu": ""},
        {"name": "portable", "srcs": [
            "backends/cpu/attention.c",
            "backends/cpu/backend.c",
            "backends/cpu/cache.c",
            "backends/cpu/cpuid.c",
            "backends/cpu/exec.c",
            "backends/cpu/experts.c",
            "backends/cpu/hyper.c",
            "backends/cpu/kernels.c",
            "backends/cpu/kernels_portable.c",
            "backends/cpu/latent.c",
            "backends/cpu/latent_ops.c",
            "backends/cpu/matmul.c",
            "backends/cpu/matmul_portable.c",
            "backends/cpu/memory.c",
            "backends/cpu/pool.c",
            "backends/cpu/program.c",
            "backends/cpu/record.c",
            "backends/cpu/record_dsv4.c",
            "backends/cpu/record_kin.c",
            "backends/cpu/rounding.c",
            "backends/guard/guard.c",
            "backends/null/null.c",
            "backends/null/null_dsv4.c",
            "backends/null/null_kin.c",
            "ops/compose.c",
            "quant/dequant.c",
            "quant/quantize.c",
            "sampling/sampling.c",
            "sampling/scan.c",
            "sampling/scan_portable.c"
        ], "copts": [], "cpu": ""},
        {"name": "avx2", "srcs": [
            "backends/cpu/kernels_avx2.c",
            "backends/cpu/matmul_avx2.c",
            "sampling/scan_avx2.c"
        ], "copts": ["-mavx2", "-mfma", "-mf16c"], "cpu": "x86_64"},
        {"name": "avx512", "srcs": [
            "backends/cpu/matmul_avx512.c",
            "backends/cpu/kernels_avx512.c",
            "sampling/scan_avx512.c"
        ], "copts": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx2", "-mfma", "-mf16c"], "cpu": "x86_64"},
        {"name": "neon", "srcs": [
            "backends/cpu/matmul_neon.c",
            "backends/cpu/kernels_neon.c",
            "sampling/scan_neon.c"
        ], "copts": [], "cpu": "aarch64"}
    ]
}
