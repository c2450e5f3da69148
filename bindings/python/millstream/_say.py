"""What threads print, and the assertions that they check: ``print(f"{i}: {x[i]:.2f}")`` and ``assert x[i] > 0``.

A value that is formatted while a kernel is traced becomes a mark in the string, `print` finds the marks. So f-strings are
Python's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream._values import Value

if TYPE_CHECKING:
    from millstream._trace import Builder

# Characters for private use: the number of a value, its type, and how it is written.
_MARK = re.compile("\ue000(\\d+) (\\w+)\ue001([^\ue002]*)\ue002")


def mark(builder: Builder, value: Value, spec: str) -> str:
    """Returns what stands in a string for a value that is written as the format specification says."""
    value = builder.settled(value)
    return f"\ue000{builder.number_of(value)} {value._dtype}\ue001{spec}\ue002"


def say(builder: Builder, verb: str, text: str) -> None:
    """Adds a statement that says a text with marks: `print`, or `fail`."""
    pieces: list[str] = []
    values: list[str] = []
    last = 0
    for found in _MARK.finditer(text):
        number, dtype, spec = found.groups()
        pieces += [_escaped(text[last : found.start()]), f"{{{_spec(dtype, spec)}}}"]
        values.append(f", %{number}")
        last = found.end()
    pieces.append(_escaped(text[last:]))
    quoted = "".join(pieces).replace("\\", "\\\\").replace('"', '\\"')
    # The numbers of values are those that follow a percent sign.
    quoted = re.sub(r"%(?=\d)", r"%\\", quoted)
    builder.emit(f'{verb} "{quoted}"{"".join(values)}')


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _spec(dtype: str, spec: str) -> str:
    """Returns a format specification of the IR. Without one a float has a point, as in Python."""
    is_float = "f" in dtype
    if not spec:
        return ":?" if is_float else ""
    return ":" + spec.removesuffix("f" if is_float else "d")


def say_values(builder: Builder, values: tuple[Any, ...], sep: str | None = " ", end: str | None = "\n", **options: Any) -> None:
    """Prints a line of values, as `print`."""
    if end not in ("\n", None) or options.get("file") is not None:
        raise builder.error("a kernel prints whole lines, which `stream.printed()` returns: `print` takes no `end` and no `file`")
    texts = (mark(builder, value, "") if isinstance(value, Value) else str(value) for value in values)
    say(builder, "print", (" " if sep is None else sep).join(texts))


def assertion(builder: Builder, condition: Any, message: Callable[[], Any] | None, text: str) -> None:
    """Fails the launch on the CPU and the simulator if a thread's condition does not hold, and the tracing if Python's does
    not."""
    from millstream._join import truth

    def fails() -> str:
        return f"assertion `{text}` fails" + ("" if message is None else f": {message()}")

    if not isinstance(condition, Value):
        if not condition:
            raise builder.error(_MARK.sub("a value", fails()))
        return
    builder.begin(f"if %{builder.number_of(~truth(condition))} {{")
    try:
        say(builder, "fail", fails())
    finally:
        builder.end()
