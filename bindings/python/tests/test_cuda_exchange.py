"""Buffers of a CUDA GPU that other libraries use, on the fake driver of `tests/cuda/fake`.

The driver replaces NVIDIA's for a process of its own: it is found by the library path. `MILLSTREAM_FAKE_CUDA` is its folder.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

FOLDER = os.environ.get("MILLSTREAM_FAKE_CUDA")
PROGRAM = pathlib.Path(__file__).parent / "cuda_consumer.py"
# The exit code of a process in which the driver has found a violation.
VIOLATION = 86

pytestmark = pytest.mark.skipif(FOLDER is None, reason="MILLSTREAM_FAKE_CUDA does not name the fake driver's folder")


def run(part: str, seed: int) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LD_LIBRARY_PATH": str(FOLDER), "FAKE_CUDA_SESSION": str(seed)}
    command = [sys.executable, str(PROGRAM), part]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_library_shares_memory_with_tasks(seed: int) -> None:
    done = run("ordered", seed)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_memory_is_kept_if_the_end_of_its_use_cannot_be_learned() -> None:
    done = run("unlearned", 4)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_the_driver_finds_a_library_that_frees_too_early() -> None:
    reports = [run("unordered", seed) for seed in range(1, 4)]
    races = [done for done in reports if done.returncode == VIOLATION and "race" in done.stderr]
    assert races, [(done.returncode, done.stderr) for done in reports]
