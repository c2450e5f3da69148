"""millstream on Ray: one actor for each device, and a pool that spreads requests over the actors.

    class Scaler:
        def __init__(self, device: ms.Device, by: float) -> None:
            ...  # kernels, weights, whatever stays on the device

        async def scale(self, x):  # a read-only array, in the object store of this host
            ...
            return await stream.read(buffer)

    with Pool.start(Scaler, 2.0, actors=4, device="cuda", options={"num_gpus": 1}) as pool:
        answer = pool.request("scale", np.ones(1000, np.float32))
        print(answer.wait())  # or `await answer`

Ray places the actors, restarts them, and moves the data. This package decides three things: which actor a request goes to
(`Pool`), whether an actor admits it (`DeviceActor`), and what a caller learns if it was not answered (`Busy`, `Withdrawn`).

| module | contents |
| --- | --- |
| `_balance` | the choice of an actor: plain state, without Ray |
| `_pool`, `_answer` | the callers' side: requests, retries at other actors, health |
| `_actor`, `_metrics` | the device's side: admission, loss of the device; figures for Ray's dashboard |
| `_replies` | the values that travel between both sides |
| `_cluster` | every use of Ray, typed |
"""

from __future__ import annotations

from millstream.ray._actor import DeviceActor
from millstream.ray._answer import Answer
from millstream.ray._pool import Pool
from millstream.ray._replies import Busy, Health, Withdrawn

__all__ = ["Answer", "Busy", "DeviceActor", "Health", "Pool", "Withdrawn"]
