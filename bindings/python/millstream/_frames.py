"""Calls of traced functions, and what they return."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from millstream._join import Join, use
from millstream._statements import Block
from millstream._trace import current
from millstream._types import bool_

_CALLS_MAX = 32
"""The most calls of a function within itself. A condition of a thread does not end them: both of its paths are traced."""


class Frame:
    """A call of a function that is traced. In a kernel, `return` ends the thread. In a function that a kernel calls it goes
    on behind the call: the body is a loop of one iteration, which a `return` leaves, if one is below a condition or loop.
    """

    def __init__(self, name: str, key: object, is_kernel: bool, is_left_early: bool) -> None:
        self.builder = current()
        self.name = name
        self.key = key
        self.is_kernel = is_kernel
        self.is_left_early = is_left_early
        self.arms: list[tuple[Block, Any]] = []
        self.value: Any = None
        self.flag: str | None = None

    def __enter__(self) -> Frame:
        builder = self.builder
        if sum(frame.key == self.key for frame in builder.frames) > _CALLS_MAX:
            raise builder.error(f"`{self.name}` calls itself, and a device has no recursion; use a loop")
        builder.frames.append(self)
        self.depth = len(builder.open)
        self.start = builder.mark()
        if self.is_left_early:
            self.body = builder.begin("loop {")
            self.body.is_loop = True
            self.depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.builder.frames.pop()

    def returns(self, value: Any) -> bool:
        """Adds a `return`; returns whether it is Python that returns `value` then."""
        builder = self.builder
        is_outside = len(builder.open) == self.depth
        if self.is_kernel:
            if value is not None:
                raise builder.error("a kernel returns a value; store results in a `ms.Write` or `ms.Update`")
            if not is_outside and not builder.open[-1].ended:
                builder.leave("return")
            return is_outside
        if not self.is_left_early:
            self.value = use(value)
            return True
        if not builder.open[-1].ended:
            self.arms.append((builder.mark(), value))
            self.leave_loops()
        if is_outside:
            self.close()
        return is_outside

    def leave_loops(self) -> None:
        """Leaves the loops of the body, each of which leaves the next one around it, and the body."""
        builder = self.builder
        loops = [block for block in builder.open[self.depth :] if block.is_loop]
        if loops and not builder.trials:
            if self.flag is None:
                self.flag = builder.declare("local", "returned", "bool")
                with builder.at(self.start):
                    builder.emit(f"store {self.flag} = %{builder.constant(False, bool_)._number}")
            builder.emit(f"store {self.flag} = %{builder.constant(True, bool_)._number}")
        for block in loops:
            block.is_left_by = self
        builder.leave("break")

    def close(self) -> None:
        """Ends the body, and finds the result."""
        builder = self.builder
        body = builder.end()
        if len(self.arms) == 1 and self.arms[0][0] in body.items:
            # No condition and no loop is around the only `return`.
            body.items.pop()
            parent = builder.open[-1]
            if not parent.ended:
                parent.items[-1:] = body.items
            self.value = use(self.arms[0][1])
        elif self.arms:
            join = Join(builder, [block for block, _ in self.arms], None, f"`{self.name}`")
            self.value = use(join.value("the result", None, [value for _, value in self.arms]))
