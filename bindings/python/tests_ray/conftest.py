"""One cluster for all tests: a head without processors of its own, which other nodes join."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Read by Ray when it is imported, and by the processes that it starts.
os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0")
# Workers import from this folder, where `services` is, and must not from the one above, with the sources of the package.
os.chdir(Path(__file__).parent)

STORE_BYTES = 200 << 20
# A call that has not returned after this time, in seconds, fails its test. Nothing waits for it otherwise.
LIMIT = 120.0


class Nodes:
    """The nodes of a cluster on this machine, each with its own raylet, object store and one GPU by name only."""

    def __init__(self) -> None:
        ray: Any = importlib.import_module("ray")
        utils: Any = importlib.import_module("ray.cluster_utils")
        self._cluster: Any = utils.Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "num_gpus": 1,
                "include_dashboard": False,
                "object_store_memory": STORE_BYTES,
                "_system_config": {
                    # A lost node is noticed after 5 s instead of 15 s.
                    "health_check_period_ms": 1000,
                    "health_check_failure_threshold": 5,
                    # Metrics are sent to the endpoint each second instead of each 10 s.
                    "metrics_report_interval_ms": 1000,
                },
            },
        )
        self.address: str = self._cluster.address
        self.more: list[Any] = []
        ray.init(address=self.address, log_to_driver=False, logging_level="warning")

    def grow(self, count: int) -> None:
        """Adds nodes until there are this many."""
        while 1 + len(self.more) < count:
            node = self._cluster.add_node(num_cpus=0, num_gpus=1, object_store_memory=STORE_BYTES)
            self.more.append(node)
        self._cluster.wait_for_nodes()

    def kill(self, name: str, actor: int) -> None:
        """Kills the node with this id, and the process of its actor, which would notice that only later."""
        node = next(each for each in self.more if each.node_id == name)
        self.more.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)
        os.kill(actor, signal.SIGKILL)

    def close(self) -> None:
        """Ends all nodes."""
        ray: Any = importlib.import_module("ray")
        ray.shutdown()
        self._cluster.shutdown()


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """The cluster, with one node at first."""
    made = Nodes()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of the actors of `pool`."""
    path = tmp_path_factory.mktemp("actors") / "log"
    path.touch()
    return path


@pytest.fixture(scope="session")
def pool(nodes: Nodes, log: Path) -> Iterator[Any]:
    """Two actors on one node, which admit 4 requests each."""
    from millstream.ray import Pool
    from services import Service

    with Pool.start(Service, log, actors=2, max_requests=4, metrics_seconds=0.2) as made:
        made.wait_ready(LIMIT)
        yield made


@pytest.fixture
def numbers() -> Callable[[], int]:
    """Returns numbers of requests that no other test uses."""
    global _next

    def take() -> int:
        global _next
        _next += 1
        return _next

    return take


_next = 0
