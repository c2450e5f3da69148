#!/usr/bin/env python3
"""Measures graphs: ours beside torch, JAX and NumPy, with one thread and with two.

    python3 benches/peers/rows/rows.py [--rounds N] [--threads 1 2] [--only SUBSTRING ...] [--no-build] [--ours-only]
        [--json FILE]

The first run creates a virtual environment (`--venv`, which is kept) and installs the peers from PyPI; torch's wheel for Linux
includes some gigabytes of CUDA. Each contender is a process of its own that takes one sample of a row at a time. The rounds
sample the contenders in turn, so that other load affects all of them. The output has medians in microseconds, and the ratio of
ours to the best peer: above 1 ours is slower. JAX is pinned to as many cores, because nothing else limits its threads. Of ours,
`--threads` workers compute; the calling thread is one more, and runs small tasks itself. `--json` writes all samples, for a table of
`benches/RESULTS.md`.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROWS = [
    "fused_1k", "take_made", "take_bound", "roll", "transpose", "decode", "argmax", "matmul_i32", "sum_columns", "mlp", "pow", "softmax_0",
    "layer_norm", "scatter_add", "softmax", "sum", "chain", "attention", "matmul",
]
PEERS = ["numpy", "torch", "jax"]
M = 1 << 20


def floats(*shape):
    import numpy as np
    count = int(np.prod(shape))
    return ((np.arange(count, dtype=np.int64) * 7919 % 2003).astype(np.float32) / 1000 - 1).reshape(shape)


def indices(count, below):
    import numpy as np
    return np.arange(count, dtype=np.int64) * 1_000_003 % below


def integers(*shape):
    import numpy as np
    return ((np.arange(int(np.prod(shape))) % 201).astype(np.int32) - 100).reshape(shape)


def inputs(row):
    """Returns the inputs of a row, as NumPy arrays."""
    return {
        "fused_1k": lambda: [floats(1000)] * 3,
        "take_made": lambda: [floats(10_000, 768)],
        "take_bound": lambda: [floats(10_000, 768), indices(512, 10_000)],
        "roll": lambda: [floats(M)],
        "transpose": lambda: [floats(2048, 2048)],
        "decode": lambda: [floats(4, 4096), floats(4096, 4096)],
        "argmax": lambda: [floats(1024, 1024)],
        "matmul_i32": lambda: [integers(512, 512), integers(512, 512)],
        "sum_columns": lambda: [floats(2048, 2048)],
        "mlp": lambda: [floats(64, 784)] + [floats(*s) for s in [(784, 512), (512,), (512, 512), (512,), (512, 10), (10,)]],
        "pow": lambda: [floats(M), floats(M)],
        "softmax_0": lambda: [floats(1024, 1024)],
        "layer_norm": lambda: [floats(1024, 1024), floats(1024), floats(1024)],
        "scatter_add": lambda: [floats(M), indices(M, M), floats(M)],
        "softmax": lambda: [floats(1024, 1024)],
        "sum": lambda: [floats(16 * M)],
        "chain": lambda: [floats(1000)],
        "attention": lambda: [floats(8, 512, 64) for _ in range(3)],
        "matmul": lambda: [floats(1024, 1024), floats(1024, 1024)],
    }[row]()


def numpy_row(row):
    import numpy as np

    def softmax(x, axis):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    def mlp(x, *w):
        for i in range(3):
            x = x @ w[2 * i] + w[2 * i + 1]
            x = np.maximum(x, 0) if i < 2 else x
        return x

    def norm(x, gain, shift):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float32(1e-5)) * gain + shift

    def scatter_add(x, i, v):
        x = x.copy()
        np.add.at(x, i, v)
        return x

    def chain(x):
        for _ in range(50):
            x = x * np.float32(0.99) + np.float32(0.01)
        return x

    return {
        "fused_1k": lambda a, b, c: np.exp(a * b + c),
        "take_made": lambda x: x[np.arange(512) * 1003 % 10_000],
        "take_bound": lambda x, i: x[i],
        "roll": lambda x: np.roll(x, 1000),
        "transpose": lambda x: np.ascontiguousarray(x.T),
        "decode": lambda x, w: x @ w.T,
        "argmax": lambda x: x.argmax(-1),
        "matmul_i32": lambda a, b: a @ b,
        "sum_columns": lambda x: x.sum(0),
        "mlp": mlp,
        "pow": lambda a, b: (np.abs(a) + np.float32(0.1)) ** b,
        "softmax_0": lambda x: softmax(x, 0),
        "layer_norm": norm,
        "scatter_add": scatter_add,
        "softmax": lambda x: softmax(x, -1),
        "sum": lambda x: x.sum(),
        "chain": chain,
        "attention": lambda q, k, v: softmax(q @ k.transpose(0, 2, 1) * np.float32(0.125), -1) @ v,
        "matmul": lambda a, b: a @ b,
    }[row]


def torch_row(row):
    import torch

    def mlp(x, *w):
        for i in range(3):
            x = torch.addmm(w[2 * i + 1], x, w[2 * i])
            x = torch.relu_(x) if i < 2 else x
        return x

    def chain(x):
        for _ in range(50):
            x = x * 0.99 + 0.01
        return x

    norm = torch.nn.functional.layer_norm
    return {
        "fused_1k": lambda a, b, c: (a * b + c).exp(),
        "take_made": lambda x: x[torch.arange(512) * 1003 % 10_000],
        "take_bound": lambda x, i: torch.index_select(x, 0, i),
        "roll": lambda x: torch.roll(x, 1000),
        "transpose": lambda x: x.t().contiguous(),
        "decode": lambda x, w: torch.nn.functional.linear(x, w),
        "argmax": lambda x: x.argmax(-1),
        "matmul_i32": lambda a, b: a @ b,
        "sum_columns": lambda x: x.sum(0),
        "mlp": mlp,
        "pow": lambda a, b: (a.abs() + 0.1).pow(b),
        "softmax_0": lambda x: torch.softmax(x, 0),
        "layer_norm": lambda x, gain, shift: norm(x, (1024,), gain, shift, 1e-5),
        "scatter_add": lambda x, i, v: x.scatter_add(0, i, v),
        "softmax": lambda x: torch.softmax(x, -1),
        "sum": lambda x: x.sum(),
        "chain": chain,
        "attention": lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None]),
        "matmul": lambda a, b: a @ b,
    }[row]


def jax_row(row):
    import jax
    import jax.numpy as jnp

    def mlp(x, *w):
        for i in range(3):
            x = x @ w[2 * i] + w[2 * i + 1]
            x = jax.nn.relu(x) if i < 2 else x
        return x

    def norm(x, gain, shift):
        d = x - x.mean(-1, keepdims=True)
        return d / jnp.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * gain + shift

    def chain(x):
        for _ in range(50):
            x = x * 0.99 + 0.01
        return x

    return jax.jit({
        "fused_1k": lambda a, b, c: jnp.exp(a * b + c),
        "take_made": lambda x: x[jnp.arange(512) * 1003 % 10_000],
        "take_bound": lambda x, i: x[i],
        "roll": lambda x: jnp.roll(x, 1000),
        "transpose": lambda x: jnp.copy(x.T),
        "decode": lambda x, w: x @ w.T,
        "argmax": lambda x: x.argmax(-1),
        "matmul_i32": lambda a, b: a @ b,
        "sum_columns": lambda x: x.sum(0),
        "mlp": mlp,
        "pow": lambda a, b: (jnp.abs(a) + 0.1) ** b,
        "softmax_0": lambda x: jax.nn.softmax(x, 0),
        "layer_norm": norm,
        "scatter_add": lambda x, i, v: x.at[i].add(v),
        "softmax": lambda x: jax.nn.softmax(x, -1),
        "sum": lambda x: x.sum(),
        "chain": chain,
        "attention": lambda q, k, v: jax.nn.softmax(q @ k.transpose(0, 2, 1) * 0.125, -1) @ v,
        "matmul": lambda a, b: a @ b,
    }[row])


def serve(peer, threads):
    """Runs the process of a peer: reads names of rows, and writes the seconds per run."""
    if peer == "torch":
        import torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        put, of, wait = torch.from_numpy, torch_row, lambda out: None
    elif peer == "jax":
        import jax
        put, of, wait = jax.device_put, jax_row, lambda out: out.block_until_ready()
    else:
        put, of, wait = lambda x: x, numpy_row, lambda out: None
    known = None

    def sample(runs):
        _, run, args, _ = known
        start = time.perf_counter()
        for _ in range(runs):
            wait(run(*args))
        return (time.perf_counter() - start) / runs

    for line in sys.stdin:
        row = line.strip()
        if known is None or known[0] != row:
            known = (row, of(row), [put(x) for x in inputs(row)], 0)
            sample(3)
            known = (*known[:3], int(min(2000, max(3, 0.03 / sample(3)))))
        print(sample(known[3]), flush=True)


def environment(venv):
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "numpy==2.4.*", "jax==0.10.*", "torch==2.13.0"], check=True)
    return python


def sides(samples):
    """Returns the samples of each side: ours, the best peer, with which ours is compared, and all peers."""
    peers = {name: of for name, of in samples.items() if name != "ours"}
    best = {"best peer": min(peers.values(), key=statistics.median)} if peers else {}
    return {"ours": samples["ours"], **best, **peers}


def record(rows):
    """Returns a record as `millstream-harness` reads it, of rows with a measure and the samples of each contender."""
    git = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, cwd=HERE)
    return {
        "command": " ".join(["python3 benches/peers/rows/rows.py", *sys.argv[1:]]),
        "commit": git.stdout.strip() or "unknown",
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": f"{os.cpu_count()} cores of {platform.machine()}, load {os.getloadavg()[0]:.2f}",
        "sides": list(sides(rows[0][1])),
        "rows": [
            {"measure": measure, "unit": "us", "samples": [[s * 1e6 for s in side] for side in sides(samples).values()]}
            for measure, samples in rows
        ],
    }


class Contender:
    def __init__(self, command, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        if "jax" in command:
            command = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads])), *command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def sample(self, row):
        print(row, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        return float(answer) if answer.strip() else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--venv", type=Path, default=HERE / "target" / "venv")
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve, arguments.threads[0])
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    if not arguments.no_build:
        subprocess.run(["cargo", "build", "--release", "-q", "--manifest-path", HERE / "Cargo.toml"], check=True)
    peers = [] if arguments.ours_only else PEERS
    python = environment(arguments.venv) if peers else None
    rows = [row for row in ROWS if any(only in row for only in arguments.only)]
    recorded = []
    for threads in arguments.threads:
        contenders = {"ours": Contender([target / "release" / "millstream-peers-rows", str(threads)], threads)}
        for peer in peers:
            contenders[peer] = Contender([python, __file__, "--serve", peer, "--threads", str(threads)], threads)
        print(f"\n{threads} thread{'s' * (threads > 1)}: us a run" + " and the ratio of ours to the best peer" * bool(peers))
        print(f"| {'row':12} |" + "".join(f" {name:>9} |" for name in contenders) + " ratio |")
        print("| --- |" + " ---: |" * (len(contenders) + 1))
        for row in rows:
            samples = {name: [] for name in contenders}
            for contender in contenders.values():
                contender.sample(row)
            for turn in range(arguments.rounds):
                order = list(contenders)
                for name in order[turn % len(order):] + order[: turn % len(order)]:
                    samples[name].append(contenders[name].sample(row))
            recorded.append((f"{row}, {threads} thread{'s' * (threads > 1)}", samples))
            medians = {name: statistics.median(all_of) * 1e6 for name, all_of in samples.items()}
            best = min((medians[peer] for peer in peers), default=float("nan"))
            cells = "".join(f" {medians[name]:9.1f} |" for name in contenders)
            print(f"| {row:12} |{cells} {medians['ours'] / best:5.2f} |", flush=True)
        for contender in contenders.values():
            contender.process.stdin.close()
            contender.process.wait()
    if arguments.json:
        arguments.json.write_text(json.dumps(record(recorded), indent=1) + "\n")


if __name__ == "__main__":
    main()
