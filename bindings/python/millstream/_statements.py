"""The statements of a function of the IR that is under construction, as a tree of blocks.

It becomes text at the end only, since what joins two paths adds stores to blocks that are complete already. Every statement
remembers its line, for the errors of the check and of launches.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream._errors import TraceError

if TYPE_CHECKING:
    from types import CodeType

    from millstream._frames import Frame

_OUTSIDE = (os.path.dirname(os.path.abspath(__file__)) + os.sep, contextlib.__file__)
"""The files that are no kernel's."""


class Place(NamedTuple):
    """A line of a source file."""

    file: str
    line: int


class Line(NamedTuple):
    """A statement without blocks. `is_pure` if it may run where its result is not needed."""

    text: str
    place: Place
    is_pure: bool


class Block:
    """Statements. Without a head it only marks a place among the statements of another block."""

    def __init__(self, head: str, place: Place, ended: bool = False) -> None:
        self.head = head
        self.place = place
        self.items: list[Line | Block] = []
        self.computed: dict[tuple[str, str], int] = {}
        self.otherwise: Block | None = None
        self.ended = ended
        """Whether no statement can follow: those that are added are dropped."""
        self.is_loop = False
        self.is_left_by: Frame | None = None
        """The function whose `return` leaves this loop."""

    def lines(self) -> Iterator[Line | None]:
        """Yields the statements; none for one with a block."""
        for item in self.items:
            if isinstance(item, Line):
                yield item
            elif item.head:
                yield None
            else:
                yield from item.lines()

    def is_short_and_pure(self) -> bool:
        """Whether to run this is no worse than a branch."""
        lines = list(self.lines())
        return len(lines) <= 8 and all(line is not None and line.is_pure for line in lines)


class Statements:
    """The function under construction: its head, statements and lines."""

    def __init__(self, name: str, threads: tuple[int, int, int], options: list[str], place: Place) -> None:
        self.name = name
        self.threads = threads
        self.options = options
        self.defined = place
        self.is_running = False
        self.head: list[str] = []
        self.names: set[str] = set()
        self.extents: dict[tuple[str, int | None, str], str] = {}
        self.open: list[Block] = [Block("", place)]
        self.frames: list[Frame] = []
        self.number = 0
        self.trials = 0
        """The loops around this place that are traced to find types: all that is added now is dropped later."""
        self.places: dict[str, Place] = {}
        self.broken: TraceError | None = None
        self.without_source: set[CodeType] = set()

    # Errors.

    @staticmethod
    def caller() -> Any:
        """Returns the frame of the caller outside of this package."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_OUTSIDE):
            frame = frame.f_back
        return frame

    def place(self) -> Place:
        """Returns the line of the caller outside of this package; that of the definition before the function runs."""
        if not self.is_running:
            return self.defined
        frame = self.caller()
        return Place(frame.f_code.co_filename, frame.f_lineno)

    def error(self, why: str) -> TraceError:
        """Returns an error that names the caller's line."""
        file, line = self.place()
        return TraceError(f"{file}:{line}: kernel `{self.name}`: {why}")

    def no_python_value(self, what: str, otherwise: str) -> TraceError:
        """Returns the error for a place that needs a value of Python and got one of a thread."""
        code = self.caller().f_code
        if code in self.without_source:
            fix = (
                f"the source of `{code.co_name}` is not available, so its `if`, `while` and `for` are Python's: write it "
                f"to a file, or {otherwise}"
            )
        elif "__ms__" in code.co_freevars:
            fix = otherwise
        else:
            fix = f"decorate `{code.co_name}` with `@ms.function`, or {otherwise}"
        return self.error(f"{what}; {fix}")

    def not_traced(self, function: Any, method: str = "__call__") -> TraceError:
        """Returns the error for a function of NumPy that was called with a value or an array of the kernel."""
        from millstream import ir

        name = function.__name__
        called = f"numpy.{name}" if method == "__call__" else f"numpy.{name}.{method}"
        use = f"use `ir.{name}`" if name in ir.__all__ else "use the operators and the functions of `ir`"
        return self.error(f"`{called}` cannot be traced; {use}, element by element")

    # Text.

    def text(self) -> str:
        """Returns the whole function."""
        if self.broken is not None:
            raise self.broken
        lines: list[str] = []
        numbers: dict[str, str] = {}
        # The line of the last statement; None where a block begins or ends, since loops come from elsewhere.
        last: int | None = None

        def write(text: str, place: Place, indent: str) -> None:
            nonlocal last
            line = place.line if place.file == self.defined.file else 0
            if line != last:
                lines.append(f"{indent}line {line}")
                last = line
            # Values are counted in order: some were dropped.
            text = re.sub(r"%\d+", lambda found: numbers.setdefault(found[0], f"%{len(numbers)}"), text)
            self.places.setdefault(text.removesuffix(" {"), place)
            lines.append(indent + text)

        def walk(block: Block, indent: str) -> None:
            nonlocal last
            for item in block.items:
                if isinstance(item, Line):
                    write(item.text, item.place, indent)
                    continue
                if not item.head:
                    walk(item, indent)
                    continue
                write(item.head, item.place, indent)
                last = None
                walk(item, indent + "  ")
                if item.otherwise is not None and item.otherwise.items:
                    last = None
                    lines.append(indent + "} else {")
                    walk(item.otherwise, indent + "  ")
                last = None
                lines.append(indent + "}")

        walk(self.open[0], "  ")
        body = "\n".join(lines)
        x, y, z = self.threads
        file = self.defined.file.replace("\\", "\\\\").replace('"', '\\"')
        head = [" ".join([f"kernel {self.name} threads {x} {y} {z}", *self.options]), f'  file "{file}"']
        return "\n".join([*head, *("  " + line for line in self.head), "{", body, "}"]) + "\n"

    def unique(self, name: str) -> str:
        """Returns a name that is not taken: this one, or with a number appended."""
        unique, count = name, 1
        while unique in self.names:
            count += 1
            unique = f"{name}_{count}"
        self.names.add(unique)
        return unique

    def declare(self, kind: str, name: str, dtype: str, length: int | str | None = None) -> str:
        """Adds a line of the head, and returns the name, which may have got a number."""
        unique = self.unique(name if name.isascii() else "v")
        suffix = "" if length is None else f"[{length}]"
        self.head.append(f"{kind} {unique}: {dtype}{suffix}")
        return unique

    def extent(self, array: str, axis: int | None, dtype: str = "i64") -> str:
        """Returns the name of the word with a length of an array; with no axis, of its number of elements."""
        key = (array, axis, dtype)
        if key not in self.extents:
            suffix = "size" if axis is None else f"shape_{axis}"
            self.extents[key] = self.declare("scalar", f"{array}_{'len' if dtype == 'u64' else suffix}", dtype)
        return self.extents[key]

    def emit(self, text: str, is_pure: bool = False) -> None:
        """Adds a statement without blocks."""
        block = self.open[-1]
        if not block.ended:
            block.items.append(Line(text, self.place(), is_pure))

    def leave(self, text: str) -> None:
        """Adds `break`, `continue` or `return`, behind which no statement of the block is reached."""
        self.emit(text)
        self.open[-1].ended = True

    def begin(self, head: str) -> Block:
        """Begins a statement with a block."""
        parent = self.open[-1]
        block = Block(head, self.place(), parent.ended)
        if not parent.ended:
            parent.items.append(block)
        self.open.append(block)
        return block

    def begin_otherwise(self, block: Block) -> Block:
        """Begins the block of an `if` that runs if the condition is false."""
        block.otherwise = Block("else", self.place(), self.open[-1].ended)
        self.open.append(block.otherwise)
        return block.otherwise

    def end(self) -> Block:
        """Ends the innermost block."""
        return self.open.pop()

    def mark(self) -> Block:
        """Returns a block without statements at this place: those that are added `at` it later stand here."""
        parent = self.open[-1]
        block = Block("", self.place(), parent.ended)
        if not parent.ended:
            parent.items.append(block)
        return block

    def savepoint(self) -> Callable[[], None]:
        """Returns a function that drops what is added from here on, when the blocks that are open now are open again."""
        block = self.open[-1]
        items, computed, ended, head = len(block.items), dict(block.computed), block.ended, len(self.head)
        names, extents = set(self.names), dict(self.extents)

        def drop() -> None:
            del block.items[items:], self.head[head:]
            block.computed, block.ended, self.names, self.extents = computed, ended, names, extents

        return drop

    @contextlib.contextmanager
    def at(self, block: Block) -> Iterator[None]:
        """Adds statements to the end of a block that is not open. They use no value that is computed elsewhere but
        those that are named."""
        self.open, saved = [block], self.open
        try:
            yield
        finally:
            self.open = saved

    def fresh(self) -> int:
        """Returns the number of a new value."""
        self.number += 1
        return self.number - 1
