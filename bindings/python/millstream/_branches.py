"""Branches of a traced function: `if`, and the expressions that compute only a part of themselves."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from millstream._join import Join, Lists, truth, use
from millstream._statements import Block
from millstream._trace import current
from millstream._values import Value

RESULT = "__ms_result__"
"""The variable with the result of a function whose `return` is the last statement of a branch."""


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
            self.lists = Lists(self.builder)

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
        join = Join(self.builder, blocks, condition, self.what)
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
