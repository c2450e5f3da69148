"""The example that trains on handwritten digits, beside the same training in NumPy."""

from __future__ import annotations

import digits
import millstream as ms
import numpy as np


def reference(rounds: int) -> float:
    """Returns the last loss of the training of `digits.train`, computed by NumPy in `f64`."""
    images, labels, _, _ = digits.load()
    random = np.random.default_rng(1)
    w1 = random.uniform(-1, 1, (digits.PIXELS, digits.HIDDEN)) * np.sqrt(6 / digits.PIXELS)
    w2 = random.uniform(-1, 1, (digits.HIDDEN, digits.DIGITS)) * np.sqrt(6 / digits.HIDDEN)
    b1, b2 = np.zeros(digits.HIDDEN), np.zeros(digits.DIGITS)
    random = np.random.default_rng(2)
    loss = 0.0
    for number in range(rounds):
        order = random.permutation(len(images))
        for batch in range(0, len(images) - digits.BATCH + 1, digits.BATCH):
            chosen = order[batch : batch + digits.BATCH]
            x, target = images[chosen].astype(np.float64), np.eye(digits.DIGITS)[labels[chosen]]
            hidden = np.maximum(x @ w1 + b1, 0)
            powers = np.exp(hidden @ w2 + b2)
            guess = powers / powers.sum(1, keepdims=True)
            loss = float(-(np.log(guess) * target).sum() / digits.BATCH)
            slope = (guess - target) / digits.BATCH
            below = (slope @ w2.T) * (hidden > 0)
            rate = 0.5 * 0.93**number
            w2, b2 = w2 - rate * hidden.T @ slope, b2 - rate * slope.sum(0)
            w1, b1 = w1 - rate * x.T @ below, b1 - rate * below.sum(0)
    return loss


def test_training_follows_numpy(device: ms.Device) -> None:
    loss, accuracy = digits.train(device, 2)
    assert abs(loss - reference(2)) < 1e-5 and accuracy > 0.75


def test_a_trained_network_recognizes_digits(cpu: ms.Device) -> None:
    loss, accuracy = digits.train(cpu, 15)
    assert loss < 0.1 and accuracy > 0.95
