"""Random functions, each of which a device must compute as Python does. ``MILLSTREAM_PYTHON_PROGRAMS=3000`` runs more."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from pathlib import Path
from typing import Any

import millstream as ms
import numpy as np
import pytest

PROGRAMS = int(os.environ.get("MILLSTREAM_PYTHON_PROGRAMS", "16"))
BATCH = 8
ARGUMENTS = [*range(-6, 20), 77, 1000, 9999, -5000]


class Writer:
    """Writes one function of `v`. All loops end, and all values stay small."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.variables = ["v", "a", "b", "c"]
        self.depth = 0
        self.counters = 0
        self.left = 30

    def expression(self, depth: int = 0) -> str:
        choose = self.random.random()
        if depth > 2 or choose < 0.4:
            return self.random.choice([*self.variables, str(self.random.randint(-4, 9))])
        if choose < 0.75:
            a, b = self.expression(depth + 1), self.expression(depth + 1)
            return f"({a} {self.random.choice(['+', '-', '*'])} {b}) % 10007"
        if choose < 0.85:
            return f"({self.expression(depth + 1)}) {self.random.choice(['//', '%'])} {self.random.choice([2, 3, -5, 7])}"
        if choose < 0.95:
            return f"({self.expression(depth + 1)} if {self.condition(depth + 1)} else {self.expression(depth + 1)})"
        return f"{self.random.choice(['min', 'max'])}({self.expression(depth + 1)}, {self.expression(depth + 1)})"

    def condition(self, depth: int = 0) -> str:
        choose = self.random.random()
        if depth > 2 or choose < 0.6:
            operator = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
            return f"{self.expression(depth + 1)} {operator} {self.expression(depth + 1)}"
        if choose < 0.85:
            first, second = self.condition(depth + 1), self.condition(depth + 1)
            return f"({first} {self.random.choice(['and', 'or'])} {second})"
        if choose < 0.92:
            return f"not ({self.condition(depth + 1)})"
        return f"{self.expression(depth + 1)} <= {self.expression(depth + 1)} < {self.expression(depth + 1)}"

    def add(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    def block(self, in_loop: bool) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, 3)):
            self.statement(in_loop)
        self.depth -= 1

    def statement(self, in_loop: bool) -> None:
        self.left -= 1
        choose = self.random.random()
        if self.left < 0 or self.depth > 4 or choose < 0.4:
            name = self.random.choice(self.variables)
            if self.random.random() < 0.2:
                other = self.random.choice(self.variables)
                self.add(f"{name}, {other} = {self.expression()}, {self.expression()}")
            elif self.random.random() < 0.3:
                self.add(f"{name} += {self.expression()}")
                self.add(f"{name} %= 10007")
            else:
                self.add(f"{name} = {self.expression()}")
        elif choose < 0.65:
            self.add(f"if {self.condition()}:")
            self.block(in_loop)
            if self.random.random() < 0.3:
                self.add(f"elif {self.condition()}:")
                self.block(in_loop)
            if self.random.random() < 0.5:
                self.add("else:")
                self.block(in_loop)
        elif choose < 0.78:
            self.counters += 1
            index = f"i{self.counters}"
            step = self.random.choice(["", "", ", 2", ", -1"])
            bounds = f"({self.expression()}) % 5"
            bounds = f"{bounds}, -1" if step == ", -1" else f"0, {bounds}" if step else bounds
            self.add(f"for {index} in range({bounds}{step}):")
            self.variables.append(index)
            self.block(True)
            self.variables.remove(index)
        elif choose < 0.86:
            self.counters += 1
            name = f"k{self.counters}"
            self.add(f"{name} = {self.random.randint(0, 2)}")
            more = f" and {self.condition()}" if self.random.random() < 0.5 else ""
            self.add(f"while {name} < ({self.expression()}) % 6{more}:")
            self.depth += 1
            self.add(f"{name} += 1")
            self.depth -= 1
            self.block(True)
        elif choose < 0.92 and in_loop:
            self.add(f"if {self.condition()}:")
            self.depth += 1
            self.add(self.random.choice(["break", "continue"]))
            self.depth -= 1
        elif choose < 0.97:
            self.add(f"if {self.condition()}:")
            self.depth += 1
            self.add(f"return {self.expression()}")
            self.depth -= 1
        else:
            self.add(f"{self.random.choice(self.variables[:4])} = helper({self.expression()}, {self.expression()})")

    def text(self, name: str) -> str:
        self.add("a, b = v + 1, 3")
        self.add("c = 0")
        while self.left > 0:
            self.statement(False)
        self.add("return (a + 3 * b + 7 * c + v) % 10007")
        return f"@ms.function\ndef {name}(v):\n" + "\n".join(self.lines) + "\n\n\n"


HEAD = '''
import millstream as ms


@ms.function
def helper(x, y):
    total = 0
    for i in range(x % 4):
        if i * y > 9:
            return y + i
        total += y
    return total % 10007 if x > y else x


'''

KERNEL = '''
@ms.kernel
def kernel(x: ms.Read[ms.i64], y: ms.Update2D[ms.i64]):
    i = ms.position()
    if i >= x.size:
        return
'''


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_random_functions_compute_what_python_does(cpu: ms.Device, tmp_path: Path, first: int) -> None:
    names = [f"f{seed}" for seed in range(first, first + BATCH)]
    text = HEAD + "".join(Writer(first + index).text(name) for index, name in enumerate(names)) + KERNEL
    text += "".join(f"    y[{index}, i] = {name}(x[i])\n" for index, name in enumerate(names))
    path = tmp_path / f"programs_{first}.py"
    path.write_text(text)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None and specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module
    specification.loader.exec_module(module)
    expected = [[getattr(module, name)(v) for v in ARGUMENTS] for name in names]
    stream = cpu.stream()
    y = stream.zeros((BATCH, len(ARGUMENTS)), ms.i64)
    stream.launch(cpu.kernel(module.kernel), 1, stream.create(np.array(ARGUMENTS, np.int64)), y)
    assert stream.read(y).wait().tolist() == expected
