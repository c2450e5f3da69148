"""Control flow of a traced function: what the statements that `_rewrite` makes of `if`, `while`, `for` and `return` call.

A condition that Python knows while the function is traced chooses a path there and then. A condition of a thread becomes a
branch of the device, and both paths are traced, one after the other. A `while`, and a `for` over `range`, is a loop of the
device in any case; a `for` over another iterable is Python's.

The variables of a function are Python's: an assignment binds a name to another value, and stores nothing. Only where
paths meet a variable gets memory: each path ends with a store, and what follows begins with a load. A loop does so with
each variable that its body assigns, if it was assigned before. A variable needs one type on all paths. A Python number has
none, and takes that of the value that it meets: so the body of a loop is traced, and dropped, until the types of such
variables are known.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

import numpy as np

from millstream import ir
from millstream._arrays import Array
from millstream._errors import TraceError
from millstream._trace import Block, Builder, current
from millstream._types import bool_, counter, f32
from millstream._values import Untyped, UntypedFloat, UntypedInt, Value

_CALLS_MAX = 32
"""The most calls of a function within itself. A condition of a thread does not end them: both of its paths are traced."""
RESULT = "__ms_result__"
"""The variable with the result of a function whose `return` is the last statement of a branch."""

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


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def _is_same(a: object, b: object) -> bool:
    """Returns whether two values are the same one, or equal numbers of Python."""
    return a is b or (_is_number(a) and type(a) is type(b) and bool(a == b))


def truth(value: Any) -> Any:
    """Returns a value of the device as a `bool_`: whether it is not zero. Returns another object as it is."""
    value = use(value)
    if not isinstance(value, Value):
        return value
    value = current().settled(value)
    return value if value._dtype == "bool" else value != 0


class _Lists:
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


class _Join:
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
        if all(_is_same(first, value) for value in values):
            # If there is one path, it may have computed the value, which ends with its block.
            if len(values) > 1 or first is entry or not isinstance(first, (Value, tuple)):
                return first
        if all(isinstance(value, tuple) and len(value) == len(first) for value in values):
            parts = zip(*values, strict=True)
            before = entry if isinstance(entry, tuple) and len(entry) == len(first) else (None,) * len(first)
            return _like(first, [self.value(name, old, list(part)) for old, part in zip(before, parts, strict=True)])
        if any(isinstance(value, Undefined) for value in values):
            return Undefined(f"{name} is not assigned on every path of {self.what}; assign it before")
        if not all(isinstance(value, Value) or _is_number(value) for value in values):
            return Undefined(
                f"{name} is {_kinds(values)} on the paths of {self.what}, and a device can choose between numbers only"
            )
        dtype = self.builder.common(*values)
        for value in values:
            if isinstance(value, Value) and not value._is_python and value._dtype != dtype._dtype:
                raise self.builder.error(
                    f"{name} is {_kinds(values)} on the paths of {self.what}; convert the values to one type, as in "
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
        local = builder.declare("local", _local_name(name), dtype._dtype)
        for arm, value in zip(self.arms, values, strict=True):
            with builder.at(arm):
                number = builder.operand(value, dtype)._number
                builder.emit(f"store {local} = %{number}")
        with builder.at(self.behind):
            return builder.value(dtype, f"load {local}", pure=False)


def _local_name(name: str) -> str:
    return name.strip("`") if name.startswith("`") else "v"


def _kinds(values: list[Any]) -> str:
    def kind(value: Any) -> str:
        return value._dtype if isinstance(value, Value) else "None" if value is None else f"a {type(value).__name__}"

    return " or ".join(dict.fromkeys(kind(value) for value in values))


class Branch:
    """An `if`. The variables that its blocks assign have values before it, at the end of each block, and behind it."""

    def __init__(self, test: Any, names: tuple[str, ...], entry: tuple[Any, ...], what: str = "the `if`") -> None:
        self.test = truth(test)
        self.names = names
        self.entry = entry
        self.what = what
        self.is_of_device = isinstance(self.test, Value)
        self.results = entry
        self.arms: list[tuple[Block, tuple[Any, ...]]] = []
        if self.is_of_device:
            self.builder = current()
            self.what = f"{what} at line {self.builder.place().line}"
            self.lists = _Lists(self.builder)

    def then(self) -> bool:
        """Begins the block of a true condition; returns whether to trace it."""
        if self.is_of_device:
            self.first = self.builder.begin(f"if %{self.test._number} {{")
            return True
        return bool(self.test)

    def otherwise(self) -> bool:
        """Begins the block of a false condition; returns whether to trace it."""
        if self.is_of_device:
            self.builder.begin_otherwise(self.first)
            return True
        return not self.test

    def end(self, *values: Any) -> None:
        """Ends a block, at whose end the variables have these values."""
        if self.is_of_device:
            self.lists.check()
            self.arms.append((self.builder.end(), values))
        else:
            self.results = values

    def after(self) -> tuple[Any, ...]:
        """Returns the values behind the statement."""
        if not self.is_of_device:
            return self.results
        live = [(block, values) for block, values in self.arms if not block.ended]
        parent = self.builder.open[-1]
        if not live:
            # What follows is traced, and dropped.
            parent.ended = True
            return self.arms[0][1]
        blocks = [block for block, _ in live]
        condition = None
        if len(live) == 2 and self.names and all(block.is_short_and_pure() for block in blocks):
            # Both are computed, which is cheaper than a branch.
            assert parent.items.pop() is self.first
            condition = self.test
            for block in blocks:
                parent.items.extend(block.items)
        join = _Join(self.builder, blocks, condition, self.what)
        ends = [values for _, values in live]
        return tuple(
            join.value(name, entry, [values[index] for values in ends])
            for index, (name, entry) in enumerate(zip(self.names, self.entry, strict=True))
        )


def branch(test: Any, names: tuple[str, ...], entry: tuple[Any, ...]) -> Branch:
    """Begins an `if`."""
    return Branch(test, tuple("the result" if name == RESULT else f"`{name}`" for name in names), entry)


def choose(
    test: Any, then: Callable[[], Any], otherwise: Callable[[], Any], what: str = "the conditional expression"
) -> Any:
    """Returns ``then() if test else otherwise()``."""
    test = truth(test)
    if not isinstance(test, Value):
        return then() if test else otherwise()
    found = Branch(test, ("the result",), (None,), what)
    if found.then():
        found.end(then())
    if found.otherwise():
        found.end(otherwise())
    return use(found.after()[0])


def and_(*operands: Callable[[], Any]) -> Any:
    """Returns ``a and b``. The second one is computed if the first one is true."""
    first, *others = operands
    if not others:
        return first()
    value = first()
    if isinstance(value, Value):
        return choose(value, lambda: truth(and_(*others)), lambda: False, "the `and`")
    return value and and_(*others)


def or_(*operands: Callable[[], Any]) -> Any:
    """Returns ``a or b``. The second one is computed if the first one is false."""
    first, *others = operands
    if not others:
        return first()
    value = first()
    if isinstance(value, Value):
        return choose(value, lambda: True, lambda: truth(or_(*others)), "the `or`")
    return value or or_(*others)


def not_(value: Any) -> Any:
    """Returns ``not value``."""
    value = truth(value)
    return ~value if isinstance(value, Value) else not value


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne, "Is": operator.is_, "IsNot": operator.is_not, "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}  # fmt: skip


def chain(operators: tuple[str, ...], *operands: Callable[[], Any]) -> Any:
    """Returns ``a < b < c``. An operand is computed if the comparisons before it are true."""

    def compare(left: Any, index: int) -> Any:
        right = operands[index + 1]()
        result = _COMPARISONS[operators[index]](left, right)
        if index + 1 == len(operators):
            return result
        return and_(lambda: result, lambda: compare(right, index + 1))

    return compare(operands[0](), 0)


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
        self.lists = _Lists(builder)
        self.leaves = [
            (name, leaf)
            for name, value in zip(self.names, self.entry, strict=True)
            for leaf in _leaves(value)
        ]
        self.types = [_type_of(leaf) for _, leaf in self.leaves]
        while True:
            self.is_trial = any(isinstance(kind, type) and issubclass(kind, Untyped) for kind in self.types)
            parent, frame = builder.open[-1], builder.frames[-1]
            before = (len(parent.items), dict(parent.computed), parent.ended, len(frame.arms))
            self.ends = []
            yield
            if not self.is_trial:
                return
            self.infer()
            length, parent.computed, parent.ended, arms = before
            del parent.items[length:]
            del frame.arms[arms:]

    def infer(self) -> None:
        """Finds types for variables that have none, of their values at the ends of a trial."""
        is_settled = True
        for index, (_, entry) in enumerate(self.leaves):
            if not (isinstance(self.types[index], type) and issubclass(self.types[index], Untyped)):
                continue
            ends = [end[index] for end in self.ends]
            changed = [end for end in ends if end is not self.starts[index] and not _is_same(end, entry)]
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
            self.locals.append(builder.declare("local", _local_name(name), kind._dtype))
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
            found = _leaves(value)
            if isinstance(entry, Undefined):
                found = [entry]
            elif len(found) != len(_leaves(entry)):
                raise self.builder.error(f"{name} is {_kinds([entry, value])} in iterations of {self.what}")
            leaves.extend(found)
        self.ends.append(leaves)
        if self.is_trial:
            return
        for index, leaf in enumerate(leaves):
            name, local, start = self.leaves[index][0], self.locals[index], self.starts[index]
            if leaf is start or (local is None and _is_same(leaf, start)):
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
        return _unflatten(self.entry, iter(self.starts)) if self.is_of_device else values

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
        if frame is not None:
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
                results.append(Undefined(f"{name} is assigned in {self.what} only, which may run no iteration; assign it before"))
            elif kind is None or local is None:
                results.append(leaf)
            else:
                results.append(builder.value(kind, f"load {local}", pure=False))
        return _unflatten(self.entry, iter(results))

    is_endless = False


def _like(like: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """Returns a tuple of the same class."""
    make: Callable[[list[Any]], tuple[Any, ...]] = getattr(type(like), "_make", tuple)
    return make(items)


def _leaves(value: Any) -> list[Leaf]:
    """Returns the elements of tuples within tuples."""
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, tuple) else [value]


def _unflatten(like: tuple[Any, ...], leaves: Iterator[Leaf]) -> tuple[Any, ...]:
    """Returns elements in tuples as those of another one."""
    return _like(like, [_unflatten(each, leaves) if isinstance(each, tuple) else next(leaves) for each in like])


def _type_of(leaf: Leaf) -> type[Value] | None:
    """Returns the type of a variable of a loop; none for an object of Python."""
    if isinstance(leaf, Untyped) or _is_number(leaf):
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
                raise TraceError(
                    f"{':'.join(map(str, builder.place()))}: kernel `{self.name}` returns a value; store results in a "
                    "`ms.Write` or `ms.Update`"
                )
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
        if loops:
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
            join = _Join(builder, [block for block, _ in self.arms], None, f"`{self.name}`")
            self.value = use(join.value("the result", None, [value for _, value in self.arms]))


def typed(annotation: Callable[[], Any], value: Any) -> Any:
    """Returns the value of ``name: annotation = value``: a number gets the type, if it is one of the device."""
    try:
        dtype = annotation()
    except NameError:
        # It is for type checkers only.
        return value
    if isinstance(dtype, type) and issubclass(dtype, Value) and dtype is not Value:
        return current().operand(value, dtype)
    return value


# Functions of Python that have another meaning for values of the device.


def _is_traced(*values: Any) -> bool:
    return any(isinstance(value, Value) for value in values)


def _extreme(op: str, function: Any) -> Callable[..., Any]:
    def extreme(*values: Any, **options: Any) -> Any:
        given = values[0] if len(values) == 1 and isinstance(values[0], (tuple, list)) else values
        if options or not _is_traced(*given):
            return function(*values, **options)
        builder = current()
        return functools.reduce(lambda a, b: builder.binary(op, builder.common(a, b), a, b), given)

    return extreme


def _len(value: Any) -> Any:
    return value.shape[0] if isinstance(value, Array) else len(value)


def _int(*values: Any, **options: Any) -> Any:
    return current().converted(values[0], counter) if _is_traced(*values) else int(*values, **options)


def _bool(*values: Any) -> Any:
    return truth(values[0]) if _is_traced(*values) else bool(*values)


def _unary(op: str, function: Any) -> Callable[..., Any]:
    return lambda *values: current().unary(op, values[0]) if _is_traced(*values[:1]) else function(*values)


def _pow(a: Any, b: Any) -> Any:
    return a**b if _is_traced(a, b) else math.pow(a, b)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    builtins.min: _extreme("min", builtins.min), builtins.max: _extreme("max", builtins.max), len: _len, int: _int,
    bool: _bool, math.pow: _pow, math.fabs: _unary("abs", math.fabs),
    **{
        getattr(math, name): _unary(name, getattr(math, name))
        for name in ("sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "floor", "ceil")
    },
}  # fmt: skip


def call(function: Any) -> Any:
    """Returns what a call of a function calls: for some functions of Python one that takes values of the device."""
    is_python = isinstance(function, (type, type(len)))
    return _FUNCTIONS.get(function, function) if is_python else function
