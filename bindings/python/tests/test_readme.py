"""Runs the examples of the README, of the guide's page about kernels, and of the package's documentation."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import millstream as ms
import pytest

README = Path(__file__).parent.parent / "README.md"
GUIDE = README.parent.parent.parent / "docs" / "guide" / "python-kernels.md"


def run(text: str, folder: Path) -> None:
    """Runs a program from a file, since the lines of kernels are looked up."""
    file = folder / "example.py"
    file.write_text(text)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


FOUND: list[str] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
# `tests_ray` runs the others.
EXAMPLES = [example for example in FOUND if "import ray" not in example]
OF_GUIDE: list[str] = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES + OF_GUIDE)
def test_an_example_of_the_readme(example: str, tmp_path: Path) -> None:
    run(example, tmp_path)


def test_the_readme_has_examples_of_kernels_and_graphs() -> None:
    assert len(EXAMPLES) == 2 and len(OF_GUIDE) == 3


def test_the_example_of_the_package(tmp_path: Path) -> None:
    assert ms.__doc__ is not None
    lines = ms.__doc__.splitlines()
    start = lines.index("    import millstream as ms")
    end = next(index for index in range(start, len(lines)) if lines[index] and not lines[index].startswith(" "))
    run(textwrap.dedent("\n".join(lines[start:end])), tmp_path)


@pytest.mark.parametrize("name", ms.__all__)
def test_help_says_what_everything_is(name: str) -> None:
    shown = getattr(ms, name)
    members = vars(shown).items() if isinstance(shown, type) else ()
    assert pydoc.getdoc(shown) or not isinstance(shown, (type, types.FunctionType))
    for method, found in members:
        if not method.startswith("_") and isinstance(found, types.MethodDescriptorType):
            assert pydoc.getdoc(found).startswith("`("), f"{name}.{method} has no typed signature"
