"""Trains a network of two layers on handwritten digits: the Rust example `digits`, in Python.

The forward pass, the backward pass and the step of gradient descent are one compiled schedule, so a step of training is one
message to the device. Weights are updated in place.

    python examples/digits.py [cpu | cuda | vulkan]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import millstream as ms
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

DATA = Path(__file__).parents[3] / "examples" / "digits" / "digits.bin"
PIXELS, HIDDEN, DIGITS, BATCH = 64, 64, 10, 64
TEST_EVERY = 5
"""Every fifth image is for testing."""


def load() -> tuple[Array, Array, Array, Array]:
    """Returns the images and digits for training, and those for testing. Pixels are from 0 to 1."""
    records = np.fromfile(DATA, np.uint8).reshape(-1, PIXELS + 1)
    images, digits = records[:, :PIXELS].astype(np.float32) / 16, records[:, PIXELS].astype(np.int64)
    is_test = np.arange(len(records)) % TEST_EVERY == 0
    return images[~is_test], digits[~is_test], images[is_test], digits[is_test]


class Network:
    """The weights on a device, a compiled step of training, and a compiled guess for a number of images."""

    def __init__(self, stream: ms.Stream, tests: int) -> None:
        self.stream = stream
        random = np.random.default_rng(1)
        graph = ms.Graph()

        def weights(rows: int, columns: int) -> ms.LazyBuffer:
            values = random.uniform(-1, 1, (rows, columns)) * np.sqrt(6 / rows)
            return graph.buffer(stream.create(values, ms.f32))

        w1, w2 = weights(PIXELS, HIDDEN), weights(HIDDEN, DIGITS)
        b1, b2 = (graph.buffer(stream.zeros(length, ms.f32)) for length in (HIDDEN, DIGITS))

        def scores(images: ms.LazyBuffer) -> ms.LazyBuffer:
            return (images @ w1 + b1).relu() @ w2 + b2

        self.images = graph.input("images", (BATCH, PIXELS), ms.f32)
        self.digits = graph.input("digits", (BATCH, 1), ms.i64)
        self.rate, rate = graph.scalar("rate", 0.5, ms.f32)
        one_hot = (self.digits == graph.index((BATCH, DIGITS), 1)).astype(ms.f32)
        loss = -(scores(self.images).log_softmax() * one_hot).sum() / BATCH
        variables = [w1, b1, w2, b2]
        updates = [variable.set(variable - slope * rate) for variable, slope in zip(variables, loss.grad(variables))]
        self.step = ms.Schedule(loss, *updates).compile(stream)

        self.tests = graph.input("tests", (tests, PIXELS), ms.f32)
        self.guess = ms.Schedule(scores(self.tests).argmax(1)).compile(stream)

    def learn(self, images: Array, digits: Array, rate: float) -> ms.Buffer:
        """Trains on a batch. Returns the loss before the step, which stays on the device."""
        inputs = {self.images: self.stream.create(images), self.digits: self.stream.create(digits[:, None])}
        return self.step.run(self.stream, inputs, {self.rate: rate})[0]

    def guesses(self, images: Array) -> Array:
        """Returns the digits that the network sees in the images."""
        (result,) = self.guess.run(self.stream, {self.tests: self.stream.create(images)})
        return self.stream.read(result).wait()


def train(device: ms.Device, rounds: int) -> tuple[float, float]:
    """Trains for some passes over the images. Returns the last loss, and the share of test images that it sees right."""
    images, digits, test_images, test_digits = load()
    network = Network(device.stream(), len(test_images))
    random = np.random.default_rng(2)
    losses: list[ms.Buffer] = []
    for number in range(rounds):
        order = random.permutation(len(images))
        for batch in range(0, len(images) - BATCH + 1, BATCH):
            chosen = order[batch : batch + BATCH]
            losses.append(network.learn(images[chosen], digits[chosen], 0.5 * 0.93**number))
    loss: Array = network.stream.read(losses[-1]).wait()
    return loss.item(), np.count_nonzero(network.guesses(test_images) == test_digits) / len(test_digits)


def main() -> None:
    backend: Any = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    with ms.Device(backend) as device:
        start = time.perf_counter()
        loss, accuracy = train(device, 20)
        print(f"loss {loss:.4f}, {accuracy:.1%} of the test images right, {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
