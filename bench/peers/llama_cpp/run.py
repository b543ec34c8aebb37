"""Measures ds4 beside llama.cpp, in pairs, in one run: `./dev bench peers llama_cpp [what ...]`.

Builds llama.cpp from the sdist of llama-cpp-python (pinned by hash, about 10 minutes the first time, kept in
.dev/peers), requantises the embedded model to Q8_0 and F16 with its own tool, and then prints one line a figure:

    prefill Q4_1 t=2 ratio 2.31 [2.25-2.40]  ours 603 theirs 261 tok/s

A ratio is ours / theirs, the median over rounds; in a round both sides run one after the other, so that a machine whose
speed drifts drifts under both. Absolute figures are shown for orientation only.

what: prefill, decode, depth, kl, server, memory (default: all of them).

Another model is measured as it is, under its file's name; kl needs logits of it that are frozen:

    ./dev bench peers llama_cpp prefill decode kl --model gemma3-270m.gguf --golden logits_gemma3 --threads 2
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))  # started as a script: its own package and parity's lie beside it, not in the build

from bench.peers.llama_cpp import client  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SDIST = "llama_cpp_python-0.3.36"
TOOLS = ("llama-bench", "llama-server", "llama-quantize")
WHAT = ("prefill", "decode", "depth", "kl", "server", "memory")


class Peer:
    """llama.cpp, built once into a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.source = folder / SDIST / "vendor" / "llama.cpp"
        self.bin = self.source / "build" / "bin"

    def build(self) -> None:
        if all((self.bin / t).exists() for t in TOOLS) and (self.folder / "logits").exists():
            return
        for tool in ("cmake", "ninja", "g++"):
            if shutil.which(tool) is None:
                sys.exit(f"{tool} is needed to build the peer: apt-get install cmake ninja-build g++")
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.source.exists():
            say("fetching the peer's source")
            subprocess.check_call(
                [python_with_pip(), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:",
                 "--require-hashes", "--dest", str(self.folder), "--requirement", str(HERE / "sdist.lock")]
            )  # fmt: skip
            shutil.unpack_archive(self.folder / f"{SDIST}.tar.gz", self.folder, filter="data")
        say("building the peer (about 10 minutes)")
        flags = (
            "-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF -DGGML_OPENMP=ON -DLLAMA_CURL=OFF "
            "-DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF"
        ).split()
        build = self.source / "build"
        subprocess.check_call(["cmake", "-B", str(build), "-G", "Ninja", *flags], cwd=self.source, stdout=sys.stderr)
        subprocess.check_call(["ninja", "-C", str(build), *TOOLS], stdout=sys.stderr)
        libs = ["src/libllama.a", *(f"ggml/src/libggml{x}.a" for x in ("", "-cpu", "-base"))]
        subprocess.check_call(
            ["g++", "-O2", "-fopenmp", f"-I{self.source}/include", f"-I{self.source}/ggml/include",
             str(HERE / "logits.cpp"), "-o", str(self.folder / "logits"), *(str(build / x) for x in libs),
             "-ldl", "-lpthread", "-lm"]
        )  # fmt: skip

    def requantised(self, model: pathlib.Path, kind: str) -> pathlib.Path:
        out = self.folder / f"SmolLM2-135M-Instruct.{kind}.gguf"
        if not out.exists():
            subprocess.check_call(
                [str(self.bin / "llama-quantize"), "--allow-requantize", str(model), str(out), kind, "2"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        return out

    def bench(self, model: pathlib.Path, threads: int, *, pp: int, tg: int, depth: int) -> float:
        """Tokens per second of one test."""
        args = ["-m", str(model), "-t", str(threads), "-r", "1", "-p", str(pp), "-n", str(tg), "-d", str(depth)]
        out = subprocess.check_output(
            [str(self.bin / "llama-bench"), *args, "-o", "json"], text=True, stderr=subprocess.DEVNULL
        )
        return float(json.loads(out)[0]["avg_ts"])


class Ours:
    """The programs of this checkout, as ./dev shell has them at hand."""

    bench_program = (sys.executable, "-m", "ds4.perf.bench")
    server = (sys.executable, "-m", "ds4.server")
    cli = (sys.executable, "-m", "ds4.cli")

    def bench(self, model: pathlib.Path, threads: int, *, pp: int, tg: int, depth: int) -> float:
        args = ["-m", str(model), "-t", str(threads), "-r", "1", "--pp", str(pp), "--tg", str(tg), "-d", str(depth)]
        out = subprocess.check_output([*self.bench_program, *args, "--json"], text=True, stderr=subprocess.DEVNULL)
        return float(json.loads(out)[0]["tokens_per_second"]["median"])


def python_with_pip() -> str:
    """The first Python on PATH that can fetch the sdist; the build's own has no pip."""
    for folder in os.get_exec_path():
        found = shutil.which("python3", path=folder)
        if found and subprocess.run([found, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return found
    sys.exit("a Python with pip is needed to fetch the peer's source: apt-get install python3-pip")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def paired(rounds: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[list[float], float, float]:
    """Runs both sides in turn, who goes first alternating; returns the ratios and both medians."""
    a: list[float] = []
    b: list[float] = []
    for i in range(rounds):
        if i % 2:
            b.append(theirs())
            a.append(ours())
        else:
            a.append(ours())
            b.append(theirs())
    return [x / y for x, y in zip(a, b, strict=True)], statistics.median(a), statistics.median(b)


def line(name: str, ratios: list[float], ours: float, theirs: float, unit: str = "tok/s") -> None:
    print(
        f"{name} ratio {statistics.median(ratios):.2f} [{min(ratios):.2f}-{max(ratios):.2f}]"
        f"  ours {ours:.4g} theirs {theirs:.4g} {unit}",
        flush=True,
    )


@contextmanager
def serving(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not asyncio.run(client.ready(port)):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{command[0]} did not start: exit code {process.poll()}")
            time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def compare_servers(ours: Ours, peer: Peer, kind: str, model: pathlib.Path, rounds: int, threads: int) -> None:
    """Closed loop, 90-token prompts, 128 tokens out, prompt cache off. Client and server share the machine."""
    ports = (8971, 8972)
    ours_command = [
        *ours.server, "-m", str(model), "-t", str(threads), "-c", "1024", "--max-seqs", "8", "--port", str(ports[0]),
        "--no-prompt-cache",
    ]  # fmt: skip
    peer_command = [
        str(peer.bin / "llama-server"), "-m", str(model), "-t", str(threads), "-c", "8192", "-np", "8", "-cb",
        "--host", "127.0.0.1", "--port", str(ports[1]), "--no-ui", "--cache-ram", "0",
    ]  # fmt: skip

    def measure(command: list[str], port: int) -> tuple[client.Load, client.Load]:
        # One after the other: an idle server's threads would take from the other's time.
        with serving(command, port):
            asyncio.run(client.load(port, clients=2, requests=2, out=16))
            single = asyncio.run(client.load(port, clients=1, requests=4, out=128))
            return single, asyncio.run(client.load(port, clients=8, requests=24, out=128))

    totals: list[float] = []
    ttfts: list[float] = []
    rows: list[tuple[client.Load, client.Load, client.Load, client.Load]] = []
    for _ in range(rounds):
        us, them = measure(ours_command, ports[0]), measure(peer_command, ports[1])
        totals.append(us[1].total_rate / them[1].total_rate)
        ttfts.append(us[0].ttft / them[0].ttft)
        rows.append((*us, *them))
    line(
        f"server {kind} t={threads} clients=8 total", totals,
        statistics.median(r[1].total_rate for r in rows), statistics.median(r[3].total_rate for r in rows),
    )  # fmt: skip
    line(
        f"server {kind} t={threads} clients=1 ttft", ttfts,
        statistics.median(r[0].ttft for r in rows) * 1e3, statistics.median(r[2].ttft for r in rows) * 1e3, "ms",
    )  # fmt: skip


def compare_kl(ours: Ours, peer: Peer, kind: str, model: pathlib.Path, frozen: str) -> None:
    """Mean KL divergence from transformers' fp32 logits (goldens/<frozen>), over top-64 and the rest as one."""
    import numpy as np

    from parity.reference import divergence

    golden = divergence.load(divergence.GOLDENS / frozen / "logits.npz")
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        theirs = divergence.Tally()
        mine = divergence.Tally()
        for name in golden.texts:
            ids = golden.ids(name)
            ids.astype("<i4").tofile(tmp / "ids")
            subprocess.check_call([str(peer.folder / "logits"), str(model), str(tmp / "ids"), str(tmp / "theirs"), "2"])
            # Mapped and not read: of a large vocabulary it is a megabyte a token.
            theirs.add(golden, name, np.memmap(tmp / "theirs", "<f4", "r").reshape(len(ids), -1))
            text = ",".join(map(str, ids))
            subprocess.check_call(
                [*ours.cli, "-m", str(model), "--token-ids", text, "--dump-logits", str(tmp / "ours.npy"), "-q"],
                stdout=subprocess.DEVNULL,
            )
            mine.add(golden, name, np.load(tmp / "ours.npy", mmap_mode="r"))
    print(
        f"kl {kind} ratio {mine.kl / theirs.kl:.3f}  ours {mine.kl:.2e} theirs {theirs.kl:.2e}"
        f"  argmax ours {mine.argmax:.4f} theirs {theirs.argmax:.4f}",
        flush=True,
    )


def resident(pid: int) -> dict[str, float]:
    """MB of anonymous and file-backed resident memory of a process."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {k: int(re.search(rf"^{k}:\s+(\d+)", text, re.M)[1]) / 1024 for k in ("RssAnon", "RssFile", "RssShmem")}  # type: ignore[index]


def memory(ours: Ours, model: pathlib.Path) -> None:
    """The server's resident memory at 4 banks x 2,048 without the mapped model, idle and with every bank full."""
    with serving([*ours.server, "-m", str(model), "-c", "2048", "--max-seqs", "4", "--port", "8971"], 8971) as process:

        def without_model() -> float:
            mapped = client.mapped_mb(process.pid, ".gguf")
            return sum(resident(process.pid).values()) - mapped

        asyncio.run(client.load(8971, clients=1, requests=1, out=4))
        idle = without_model()
        asyncio.run(client.fill(8971, clients=4, prompt_tokens=1980, out=60))
        full = without_model()
        print(f"memory server 4x2048 idle {idle:.0f} MB full {full:.0f} MB (model mapping excluded)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="what", help=", ".join(WHAT))
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs for each figure (default 5)")
    parser.add_argument("--threads", default="1,2", help="thread counts (default 1,2)")
    parser.add_argument("--kinds", help="weight types of the embedded model: Q4_1,Q8_0,F16 (default all three)")
    parser.add_argument("--model", type=pathlib.Path, help="another GGUF file than the embedded one")
    parser.add_argument("--golden", metavar="NAME", help="folder of goldens/ with the model's frozen logits, for kl")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / ".dev" / "peers")
    args = parser.parse_args()
    unknown = set(args.what) - set(WHAT)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(WHAT)}")
    what = args.what or WHAT
    embedded = os.environ.get("DS4_EMBEDDED_MODEL")
    model = pathlib.Path(args.model or embedded or parser.error("no --model, and no DS4_EMBEDDED_MODEL")).absolute()
    own = embedded is None or not model.samefile(embedded)
    if own and args.kinds:
        parser.error("--kinds is of the embedded model; a --model is measured as it is")
    golden = args.golden or ("" if own else "logits_smollm2")
    if "kl" in what and not golden:
        parser.error("kl needs --golden, the folder of goldens/ with frozen logits of this --model")

    peer = Peer(args.folder.resolve() / "llama_cpp")
    peer.build()
    ours = Ours()
    if own:
        main_kind, models = model.stem, {model.stem: model}
    else:
        main_kind = "Q4_1"
        kinds = (args.kinds or "Q4_1,Q8_0,F16").split(",")
        models = {k: model if k == main_kind else peer.requantised(model, k) for k in kinds}
    threads = [int(t) for t in args.threads.split(",")]

    tests = {"prefill": (512, 0, 0), "decode": (0, 128, 0), "depth": (0, 128, 2048)}
    for test, (pp, tg, depth) in tests.items():
        if test not in what:
            continue
        for kind, path in models.items():
            for t in threads:
                if test == "depth" and (kind != main_kind or t != max(threads)):
                    continue
                figures = paired(
                    args.rounds,
                    partial(ours.bench, path, t, pp=pp, tg=tg, depth=depth),
                    partial(peer.bench, path, t, pp=pp, tg=tg, depth=depth),
                )
                line(f"{test} {kind} t={t}", *figures)
    if "kl" in what:
        compare_kl(ours, peer, main_kind, model, golden)
    if "server" in what:
        for kind in models:
            if kind != "F16":
                compare_servers(ours, peer, kind, models[kind], max(1, args.rounds // 2), max(threads))
    if "memory" in what:
        memory(ours, model)


if __name__ == "__main__":
    main()
