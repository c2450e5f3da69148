"""Draws photographs in pencil: the filter of `millstream demo`, with NumPy's operators.

`draw` is one text for both: given arrays of NumPy it computes at once; given lazy buffers it builds the expression that
`Pencil` compiles for a device. The filter converts to grey, blurs, finds edges, and draws them as ink on paper that keeps
a little of the photograph's light.

    python examples/pencil.py [cpu | cuda | vulkan]     # times both on the photographs of the demo; needs Pillow
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import millstream as ms
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Plane = TypeVar("Plane", Array, ms.LazyBuffer)

PHOTOS = Path(__file__).parents[3] / "cli" / "assets" / "photos"
LUMA = (0.2126, 0.7152, 0.0722)
"""The weights of red, green and blue (Rec. 709)."""
SIGMA, RADIUS = 1.4, 5
"""The standard deviation of the blur, and the pixels that it reads on each side."""
HALF_INK = 0.08
"""The edge strength that is drawn half black."""
PAPER = 0.8
"""The tone of the paper where the photograph is black. Where it is white, the paper is 1."""


def taps() -> list[float]:
    """Returns the taps of the blur: a Gaussian that sums to one."""
    bell = np.exp(-(np.arange(-RADIUS, RADIUS + 1) ** 2) / (2 * SIGMA**2))
    return [float(tap) for tap in bell / bell.sum()]


def draw(rgb: Plane, concatenate: Callable[[Sequence[Plane], int], Plane]) -> Plane:
    """Draws a photograph.

    :param rgb: the photograph, of `u8` and shape ``(height, width, 3)``
    :param concatenate: `numpy.concatenate`, or `millstream.concatenate`
    :return: the drawing, of `u8` and shape ``(height, width)``
    """
    height, width = rgb.shape[:2]
    sqrt: Any = np.sqrt  # it takes lazy buffers as well, which its type does not say

    def extended(plane: Plane, axis: int, by: int) -> Plane:
        """Returns the plane with its outermost pixels repeated on both sides of an axis."""
        first, last = (plane[:1], plane[-1:]) if axis == 0 else (plane[:, :1], plane[:, -1:])
        return concatenate([first.repeat(by, axis), plane, last.repeat(by, axis)], axis)

    def at(plane: Plane, y: int, x: int) -> Plane:
        """Returns the part of an extended plane that begins at a pixel, in the size of the photograph."""
        return plane[y : y + height, x : x + width]

    def blurred(plane: Plane, axis: int) -> Plane:
        wide = extended(plane, axis, RADIUS)
        parts = [at(wide, *((k, 0) if axis == 0 else (0, k))) * tap for k, tap in enumerate(taps())]
        return sum(parts[1:], start=parts[0])

    channels = [rgb[..., channel].astype(np.float32) * (weight / 255) for channel, weight in enumerate(LUMA)]
    light = blurred(blurred(channels[0] + channels[1] + channels[2], 1), 0)
    wide = extended(extended(light, 1, 1), 0, 1)
    (a, b, c), (d, _, f), (g, h, i) = ([at(wide, y, x) for x in range(3)] for y in range(3))
    across, down = (c - a) + 2 * (f - d) + (i - g), (g - a) + 2 * (h - b) + (i - c)
    edge: Plane = sqrt(across * across + down * down) / 4
    paper = PAPER + (1 - PAPER) * light
    drawing: Plane = (paper * HALF_INK / (edge + HALF_INK) * 255 + 0.5).astype(np.uint8)
    return drawing


def draw_by_numpy(rgb: Array) -> Array:
    """Draws a photograph with NumPy."""
    return draw(rgb, np.concatenate)


class Pencil:
    """The filter for photographs of one size, compiled for a device. Any thread may use it on any stream."""

    def __init__(self, device: ms.Device, height: int, width: int) -> None:
        graph = ms.Graph()
        self._rgb = graph.input("rgb", (height, width, 3), ms.u8)
        self._drawing = ms.Schedule(draw(self._rgb, ms.concatenate)).compile(device)

    def __call__(self, stream: ms.Stream, rgb: Array) -> ms.Pending[Array]:
        """Draws a photograph. Returns at once; the answer is the drawing."""
        (drawing,) = self._drawing.run(stream, {self._rgb: stream.create(rgb)})
        return stream.read(drawing)


def load(names: Sequence[str] = ()) -> dict[str, Array]:
    """Returns photographs of the demo by their names; the default is all of them."""
    from PIL import Image

    files = [file for file in sorted(PHOTOS.iterdir()) if not names or file.stem in names]
    return {file.stem: np.asarray(Image.open(file).convert("RGB")) for file in files}


def fastest_ms(work: Callable[[], Any], rounds: int = 5) -> float:
    """Returns the shortest time of some rounds, in milliseconds."""

    def once() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) * 1e3

    return min(once() for _ in range(rounds))


def main() -> None:
    backend: Any = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    photos = load()
    with ms.Device(backend) as device:
        stream = device.stream()
        filters = {photo.shape: Pencil(device, *photo.shape[:2]) for photo in photos.values()}

        def by_device() -> list[Array]:
            pending = [filters[photo.shape](stream, photo) for photo in photos.values()]
            return [answer.wait() for answer in pending]

        def by_numpy() -> list[Array]:
            return [draw_by_numpy(photo) for photo in photos.values()]

        worst = max(int(np.abs(a.astype(int) - b).max()) for a, b in zip(by_device(), by_numpy(), strict=True))
        print(f"{len(photos)} photographs, {sum(photo.size // 3 for photo in photos.values()) / 1e6:.1f} million pixels")
        print(f"millstream ({device.name}) {fastest_ms(by_device):7.1f} ms")
        print(f"NumPy {np.__version__}             {fastest_ms(by_numpy):7.1f} ms")
        print(f"greatest difference: {worst} of 255")


if __name__ == "__main__":
    main()
