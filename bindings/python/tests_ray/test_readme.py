"""Runs the example of the README on the cluster of the tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import LIMIT, Nodes

README = Path(__file__).parent.parent / "README.md"


def test_the_example_of_the_readme(nodes: Nodes, tmp_path: Path) -> None:
    found: list[str] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (example,) = [each for each in found if "import ray" in each]
    file = tmp_path / "example.py"
    file.write_text(example)
    environment = {**os.environ, "RAY_ADDRESS": nodes.address}
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=LIMIT, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
