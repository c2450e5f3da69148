"""Loops of a traced function.

The variables that the body assigns get memory, if they were assigned before. Such a variable needs one type in all
iterations. A Python number has none, and takes that of the value that it meets: so the body is traced, and dropped, until
the types of such variables are known.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from millstream import ir
from millstream._join import Leaf, Lists, Undefined, is_number, is_same, kinds, leaves_of, local_name, truth, unflatten
from millstream._trace import current
from millstream._types import bool_, counter, f32
from millstream._values import Untyped, UntypedFloat, UntypedInt, Value


class Loop:
    """A `while` or `for`. The variables that its body assigns have values before it, and at the start and the end of an
    iteration."""

    def __init__(self, names: tuple[str, ...], entry: tuple[Any, ...], what: str) -> None:
        self.builder = current()
        self.names = tuple(f"`{name}`" for name in names)
        self.entry = entry
        self.what = f"the `{what}` at line {self.builder.place().line}"
        self.is_of_device = False
        self.is_left = False
        self.depth = 0
        # Of the device: one of each for each number of the variables.
        self.leaves: list[tuple[str, Leaf]] = []
        self.types: list[Any] = []
        self.locals: list[str | None] = []
        self.starts: list[Leaf] = []
        self.ends: list[list[Leaf]] = []
        self.is_trial = False

    # The rounds of a loop of the device. In a trial, the types of some variables are open; its statements are dropped.

    def rounds(self) -> Iterator[None]:
        """Yields for each trace of the body."""
        builder = self.builder
        self.is_of_device = True
        self.lists = Lists(builder)
        self.leaves = [
            (name, leaf)
            for name, value in zip(self.names, self.entry, strict=True)
            for leaf in leaves_of(value)
        ]
        self.types = [_type_of(leaf) for _, leaf in self.leaves]
        while True:
            self.is_trial = any(isinstance(kind, type) and issubclass(kind, Untyped) for kind in self.types)
            self.ends = []
            if not self.is_trial:
                yield
                return
            drop, arms = builder.savepoint(), builder.frames[-1].arms
            returns = len(arms)
            builder.trials += 1
            yield
            builder.trials -= 1
            self.infer()
            drop()
            del arms[returns:]

    def infer(self) -> None:
        """Finds types for variables that have none, of their values at the ends of a trial."""
        is_settled = True
        for index, (_, entry) in enumerate(self.leaves):
            if not (isinstance(self.types[index], type) and issubclass(self.types[index], Untyped)):
                continue
            ends = [end[index] for end in self.ends]
            changed = [end for end in ends if end is not self.starts[index] and not is_same(end, entry)]
            known = [end for end in changed if isinstance(end, Value) and not isinstance(end, Untyped)]
            kind: Any = self.types[index]
            if not changed:
                # It stays what it was, so it stays Python's.
                kind = None
            elif known:
                kind = self.builder.common(*known)
            elif any(isinstance(end, (float, np.floating, UntypedFloat)) for end in changed):
                kind = UntypedFloat
            is_settled &= kind is self.types[index]
            self.types[index] = kind
        if is_settled:
            for index, (_, entry) in enumerate(self.leaves):
                if isinstance(self.types[index], type) and issubclass(self.types[index], Untyped):
                    is_float = self.types[index] is UntypedFloat
                    self.types[index] = f32 if is_float else bool_ if isinstance(entry, (bool, np.bool_)) else counter

    def enter(self, head: str) -> None:
        """Stores the variables, and begins the body."""
        builder = self.builder
        self.locals, self.starts = [], []
        for (name, leaf), kind in zip(self.leaves, self.types, strict=True):
            if kind is None or issubclass(kind, Untyped):
                self.locals.append(None)
                continue
            number = self.operand(name, leaf, kind)._number
            self.locals.append(builder.declare("local", local_name(name), kind._dtype))
            builder.emit(f"store {self.locals[-1]} = %{number}")
        self.block = builder.begin(head)
        self.block.is_loop = True
        for (_, leaf), kind, local in zip(self.leaves, self.types, self.locals, strict=True):
            if kind is None:
                self.starts.append(leaf)
            elif local is None:
                self.starts.append(builder.open_value(kind))
            else:
                self.starts.append(builder.value(kind, f"load {local}", pure=False))

    def operand(self, name: str, leaf: Leaf, kind: type[Value]) -> Value:
        if isinstance(leaf, Value) and not leaf._is_python and leaf._dtype != kind._dtype:
            raise self.builder.error(
                f"{name} is {kind._dtype} in one iteration of {self.what}, and {leaf._dtype} in the next; convert the "
                f"values to one type, as in `ms.{leaf._dtype}(..)`"
            )
        return self.builder.operand(leaf, kind)

    def store(self, values: tuple[Any, ...]) -> None:
        """Stores the values that variables have at an end of an iteration."""
        self.lists.check()
        leaves: list[Leaf] = []
        for name, entry, value in zip(self.names, self.entry, values, strict=True):
            found = leaves_of(value)
            if isinstance(entry, Undefined):
                found = [entry]
            elif len(found) != len(leaves_of(entry)):
                raise self.builder.error(f"{name} is {kinds([entry, value])} in iterations of {self.what}")
            leaves.extend(found)
        self.ends.append(leaves)
        if self.is_trial:
            return
        for index, leaf in enumerate(leaves):
            name, local, start = self.leaves[index][0], self.locals[index], self.starts[index]
            if leaf is start or (local is None and is_same(leaf, start)):
                continue
            if isinstance(leaf, Undefined):
                raise self.builder.error(leaf.why)
            if local is None:
                raise self.builder.error(f"{name} changes in {self.what}, and a device can change numbers only")
            number = self.operand(name, leaf, self.types[index])._number
            self.builder.emit(f"store {local} = %{number}")

    # What the statements call.

    def start(self, *values: Any) -> tuple[Any, ...]:
        """Returns the values at the start of an iteration."""
        self.depth = len(self.builder.open)
        return unflatten(self.entry, iter(self.starts)) if self.is_of_device else values

    def end(self, *values: Any) -> None:
        """Ends an iteration."""
        if self.is_of_device:
            if not self.block.ended:
                self.store(values)
            self.builder.end()

    def jump(self, how: str, values: tuple[Any, ...]) -> bool:
        """Adds a `break` or `continue`; returns whether it is Python that does so."""
        builder = self.builder
        if not self.is_of_device:
            if len(builder.open) != self.depth:
                raise builder.error(
                    f"a `{how}` that a thread decides is in a loop that Python runs while the kernel is traced; loop over "
                    "`range(..)`, or use a condition that is known then"
                )
            return True
        if not builder.open[-1].ended:
            self.store(values)
            self.is_left |= how == "break"
            builder.leave(how)
        return False

    def break_(self, *values: Any) -> bool:
        """Leaves the loop."""
        return self.jump("break", values)

    def continue_(self, *values: Any) -> bool:
        """Ends an iteration early."""
        return self.jump("continue", values)

    def after(self, *values: Any) -> tuple[Any, ...]:
        """Returns the values behind the loop."""
        if not self.is_of_device:
            return values
        builder = self.builder
        frame = self.block.is_left_by
        if frame is not None and not builder.trials:
            returned = builder.value(bool_, f"load {frame.flag}", pure=False)
            builder.begin(f"if %{returned._number} {{")
            builder.leave("break")
            builder.end()
        if self.is_endless and not self.is_left:
            if frame is not None:
                builder.emit("break")
            builder.open[-1].ended = True
        results = []
        for (name, leaf), kind, local in zip(self.leaves, self.types, self.locals, strict=True):
            if isinstance(leaf, Undefined):
                why = f"{name} is assigned in {self.what} only, which may run no iteration; assign it before"
                results.append(Undefined(why))
            elif kind is None or local is None:
                results.append(leaf)
            else:
                results.append(builder.value(kind, f"load {local}", pure=False))
        return unflatten(self.entry, iter(results))

    is_endless = False


def _type_of(leaf: Leaf) -> type[Value] | None:
    """Returns the type of a variable of a loop; none for an object of Python."""
    if isinstance(leaf, Untyped) or is_number(leaf):
        return UntypedFloat if isinstance(leaf, (float, np.floating, UntypedFloat)) else UntypedInt
    return type(leaf) if isinstance(leaf, Value) else None


class While(Loop):
    """A `while`: always of the device, since its condition is one of Python in the first iteration only, if at all."""

    def __init__(self, names: tuple[str, ...], entry: tuple[Any, ...]) -> None:
        super().__init__(names, entry, "while")
        self.tried = self.rounds()

    def round(self) -> bool:
        """Returns whether to trace the body again."""
        if next(self.tried, self) is self:
            return False
        self.enter("loop {")
        return True

    def test(self, condition: Any) -> bool:
        """Leaves the loop if the condition is false."""
        condition = truth(condition)
        if not isinstance(condition, Value):
            # It never changes: one that is true must be left by `break` or `return`, which the check looks for.
            self.is_endless = bool(condition)
            if self.is_endless:
                return True
            condition = self.builder.constant(False, bool_)
        self.builder.begin(f"if %{(~condition)._number} {{")
        self.is_left = True
        self.builder.leave("break")
        self.builder.end()
        return True


class For(Loop):
    """A `for`: of the device over the range of `range` and `ir.range`; over anything else it is Python's."""

    def __init__(self, iterable: Iterable[Any], names: tuple[str, ...], entry: tuple[Any, ...]) -> None:
        super().__init__(names, entry, "for")
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self.iterable, ir.Range):
            yield from self.iterable
            return
        loop = self.iterable
        for _ in self.rounds():
            head, index = loop.begun(self.builder)
            self.enter(head + " {")
            yield index()

    def index(self, value: Any, name: str) -> Any:
        """Returns the value of the index behind the loop."""
        return Undefined(f"`{name}` is the index of {self.what}, and has no value behind it") if self.is_of_device else value


def range_(function: Any, *arguments: Any) -> Any:
    """Returns the range of a `for` that says ``range(..)``: one of the device."""
    if function is not builtins.range:
        return function(*arguments)
    if not 1 <= len(arguments) <= 3:
        raise current().error(f"`range` takes 1 to 3 arguments, got {len(arguments)}")
    start, end, step = (0, arguments[0], 1) if len(arguments) == 1 else (*arguments, 1)[:3]
    return ir.Range(start, end, step, counter)
