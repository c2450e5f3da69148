"""Variables of a traced function where paths meet.

The variables are Python's: an assignment binds a name to another value, and stores nothing. Only where paths meet a
variable gets memory: each path ends with a store, and what follows begins with a load. If both paths of a branch are
short and cannot fail, both are computed, and the value is selected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from millstream._statements import Block
from millstream._trace import Builder, current
from millstream._types import bool_
from millstream._values import Untyped, UntypedFloat, UntypedInt, Value

Leaf = Any


class Undefined:
    """The value of a variable that has none, or not on every path."""

    def __init__(self, why: str) -> None:
        self.why = why


def undefined(name: str) -> Undefined:
    """Returns the value of a variable that is not assigned yet."""
    return Undefined(f"variable `{name}` is used before it is assigned")


def use(value: Any) -> Any:
    """Returns the value of a variable."""
    if isinstance(value, Undefined):
        raise current().error(value.why)
    return value


def is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def is_same(a: object, b: object) -> bool:
    """Returns whether two values are the same one, or equal numbers of Python."""
    return a is b or (is_number(a) and type(a) is type(b) and bool(a == b))


def truth(value: Any) -> Any:
    """Returns a value of the device as a `bool_`: whether it is not zero. Returns another object as it is."""
    value = use(value)
    if not isinstance(value, Value):
        return value
    value = current().settled(value)
    return value if value._dtype == "bool" else value != 0


class Lists:
    """The lists among the variables of a function. They are Python's, so a device cannot change them on one path."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        found = builder.caller().f_locals.items()
        self.all = [(name, value, self.items(value)) for name, value in found if isinstance(value, list)]

    def items(self, found: list[Any]) -> list[Any]:
        """Returns the elements of lists within lists."""
        return [item for each in found for item in (self.items(each) if isinstance(each, list) else [each])]

    def check(self) -> None:
        for name, found, before in self.all:
            now = self.items(found)
            if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
                raise self.builder.error(
                    f"list `{name}` changes in a branch or loop of the device; use an array of the thread, "
                    "`ir.local(ms.f32, length)`"
                )


class Join:
    """The place where paths meet. Paths that begin with a `condition` are already one: each value is selected."""

    def __init__(self, builder: Builder, arms: list[Block], condition: Value | None, what: str) -> None:
        self.builder = builder
        self.arms = arms
        self.condition = condition
        self.what = what
        self.behind = builder.mark()

    def value(self, name: str, entry: object, values: list[Any]) -> Any:
        """Returns the value of a variable that has these values at the ends of the paths."""
        first = values[0]
        if all(is_same(first, value) for value in values):
            # If there is one path, it may have computed the value, which ends with its block.
            if len(values) > 1 or first is entry or not isinstance(first, (Value, tuple)):
                return first
        if all(isinstance(value, tuple) and len(value) == len(first) for value in values):
            parts = zip(*values, strict=True)
            before = entry if isinstance(entry, tuple) and len(entry) == len(first) else (None,) * len(first)
            return like_of(first, [self.value(name, old, list(part)) for old, part in zip(before, parts, strict=True)])
        if any(isinstance(value, Undefined) for value in values):
            return Undefined(f"{name} is not assigned on every path of {self.what}; assign it before")
        if not all(isinstance(value, Value) or is_number(value) for value in values):
            return Undefined(
                f"{name} is {kinds(values)} on the paths of {self.what}, and a device can choose between numbers only"
            )
        dtype = self.builder.common(*values)
        for value in values:
            if isinstance(value, Value) and not value._is_python and value._dtype != dtype._dtype:
                raise self.builder.error(
                    f"{name} is {kinds(values)} on the paths of {self.what}; convert the values to one type, as in "
                    f"`ms.{dtype._dtype}(..)`"
                )
        if any(isinstance(value, Value) and not isinstance(value, Untyped) for value in values) or dtype is bool_:
            return self.typed(name, dtype, values)
        is_float = any(isinstance(value, (float, np.floating, UntypedFloat)) for value in values)
        kind: type[Untyped] = UntypedFloat if is_float else UntypedInt
        if dtype is kind:
            return self.builder.open_value(kind)
        result = kind._of(self.builder, 0)
        taken: dict[type[Value], Value] = {}

        def take(dtype: type[Value]) -> Value:
            if self.builder.trials:
                # It is dropped.
                return self.builder.value(dtype, "untyped", pure=False)
            if dtype not in taken:
                taken[dtype] = self.typed(name, dtype, values)
            return taken[dtype]

        result.taken = take
        return result

    def typed(self, name: str, dtype: type[Value], values: list[Any]) -> Value:
        """Returns the value of a variable of a type."""
        builder = self.builder
        if self.condition is not None:
            with builder.at(self.behind):
                if dtype is bool_ and values[1] is False:
                    return builder.binary("and", dtype, self.condition, values[0])
                if dtype is bool_ and values[0] is True:
                    return builder.binary("or", dtype, self.condition, values[1])
                return builder.select(dtype, self.condition, *values)
        local = builder.declare("local", local_name(name), dtype._dtype)
        for arm, value in zip(self.arms, values, strict=True):
            with builder.at(arm):
                number = builder.operand(value, dtype)._number
                builder.emit(f"store {local} = %{number}")
        with builder.at(self.behind):
            return builder.value(dtype, f"load {local}", pure=False)


def local_name(name: str) -> str:
    return name.strip("`") if name.startswith("`") else "v"


def kinds(values: list[Any]) -> str:
    def kind(value: Any) -> str:
        return value._dtype if isinstance(value, Value) else "None" if value is None else type(value).__name__

    return " or ".join(dict.fromkeys(kind(value) for value in values))


def like_of(like: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """Returns a tuple of the same class."""
    make: Callable[[list[Any]], tuple[Any, ...]] = getattr(type(like), "_make", tuple)
    return make(items)


def leaves_of(value: Any) -> list[Leaf]:
    """Returns the elements of tuples within tuples."""
    return [leaf for each in value for leaf in leaves_of(each)] if isinstance(value, tuple) else [value]


def unflatten(like: tuple[Any, ...], leaves: Iterator[Leaf]) -> tuple[Any, ...]:
    """Returns elements in tuples as those of another one."""
    return like_of(like, [unflatten(each, leaves) if isinstance(each, tuple) else next(leaves) for each in like])
