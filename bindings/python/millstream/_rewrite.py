"""Rewrites the source of a function for tracing: its control flow becomes calls of `_control`.

    if c:                     t1 = __ms__.branch(c, ("a",), (a,))
        a = x[0]              if t1.then():
    else:                         a = x[0]
        a = 2 * a      ->         t1.end(a)
                              if t1.otherwise():
                                  (a,) = t1.entry
                                  a = 2 * __ms__.use(a)
                                  t1.end(a)
                              (a,) = t1.after()

The new code has the file and the lines of the old one, its globals and the variables that it closes over.
"""

from __future__ import annotations

import __future__

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from millstream._branches import RESULT
from millstream._errors import TraceError

_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

_REFUSED: dict[type[ast.AST], str] = {
    ast.Try: "a kernel has no `try`: nothing raises an exception on a device",
    ast.TryStar: "a kernel has no `try`: nothing raises an exception on a device",
    ast.Yield: "a kernel has no `yield`", ast.YieldFrom: "a kernel has no `yield`", ast.Await: "a kernel has no `await`",
    ast.AsyncFor: "a kernel has no `async`", ast.AsyncWith: "a kernel has no `async`",
    ast.AsyncFunctionDef: "a kernel has no `async`", ast.ClassDef: "define the class outside of the kernel",
    ast.Global: "a kernel cannot assign to a global variable; store to an array",
    ast.Nonlocal: "a kernel cannot assign to a variable of another function; store to an array",
}  # fmt: skip


def rewritten(function: types.FunctionType, is_kernel: bool, runtime: Any) -> Callable[..., Any] | None:
    """Returns the function with its control flow as calls of `runtime`; none if its source is not available.

    :raises TraceError: if a statement cannot become a part of a kernel; the message names its line
    """
    code = function.__code__
    if "__ms__" in code.co_freevars:
        # It is within a function that is rewritten.
        return function
    try:
        lines, start = inspect.getsourcelines(code)
        # A function within another one is indented.
        tree = ast.parse("if 1:\n" + "".join(lines) if lines[0][:1].isspace() else "\n" + "".join(lines))
    except (OSError, TypeError, SyntaxError):
        return None
    first = tree.body[0]
    node = first.body[0] if isinstance(first, ast.If) and lines[0][:1].isspace() else first
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        return None
    ast.increment_lineno(tree, start - 2)
    node.decorator_list = []
    # Defaults are those of the old function.
    node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
    node = _Function(code.co_filename, is_kernel, node, frozenset()).result()
    names = [*code.co_freevars, "__ms__"]
    # It is compiled only, so that the function closes over its arguments, and its own name stays what it was.
    own = "pass" if node.name in names else f"global {node.name}"
    factory = ast.parse(f"def factory({', '.join(names)}):\n    {own}").body[0]
    assert isinstance(factory, ast.FunctionDef)
    factory.body.append(node)
    module = ast.fix_missing_locations(ast.Module([factory], []))
    compiled = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    inner = _code_named(_code_named(compiled, "factory"), node.name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells["__ms__"] = types.CellType(runtime)
    closure = tuple(cells[name] for name in inner.co_freevars)
    new = types.FunctionType(inner, function.__globals__, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__qualname__ = function.__qualname__
    return new


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    return next(each for each in code.co_consts if isinstance(each, types.CodeType) and each.co_name == name)


def _assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """Returns the names that statements assign, without those of functions within them."""
    found: dict[str, None] = {}

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        if isinstance(node, (*_SCOPES, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return
        for child in ast.iter_child_nodes(node):
            walk(child)

    for node in nodes:
        walk(node)
    return list(found)


def _ends(statements: Sequence[ast.stmt]) -> bool:
    """Returns whether no path reaches the end of a block."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue, ast.Raise))


def _with_rest_in_branches(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Moves what follows an `if` that returns in one of its blocks into the other block."""
    done: list[ast.stmt] = []
    for index, node in enumerate(statements):
        done.append(node)
        if not isinstance(node, ast.If):
            continue
        rest = list(statements[index + 1 :])
        node.body, node.orelse = _with_rest_in_branches(node.body), _with_rest_in_branches(node.orelse)
        if rest and _ends(node.body) and not _ends(node.orelse):
            node.orelse = _with_rest_in_branches([*node.orelse, *rest])
            return done
        if rest and _ends(node.orelse) and not _ends(node.body):
            node.body = _with_rest_in_branches([*node.body, *rest])
            return done
    return done


def _result_at_end(statements: list[ast.stmt]) -> None:
    """Makes each `return` that is the last statement an assignment to the result."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.Return):
        value = last.value or ast.copy_location(ast.Constant(None), last)
        target = ast.copy_location(ast.Name(RESULT, ast.Store()), last)
        statements[-1] = ast.copy_location(ast.Assign([target], value), last)
    elif isinstance(last, ast.If):
        _result_at_end(last.body)
        _result_at_end(last.orelse)


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)},)" if names else "()"


class _Substitution(ast.NodeTransformer):
    def __init__(self, origin: ast.AST, parts: dict[str, Any]) -> None:
        self.origin = origin
        self.parts = parts

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Name) and isinstance(self.parts.get(node.value.id), list):
            return self.parts[node.value.id]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        return self.parts.get(node.id, node)

    def visit(self, node: ast.AST) -> Any:
        ast.copy_location(node, self.origin)
        if getattr(node, "end_lineno", None) != getattr(node, "lineno", None):
            # A call of a method would have the last line.
            node.end_lineno, node.end_col_offset = node.lineno, node.col_offset  # type: ignore[attr-defined]
        return super().visit(node)


def _made(text: str, origin: ast.AST, **parts: Any) -> list[ast.stmt]:
    """Returns statements from their text, at the lines of another one. A name such as `<BODY>` stands for a part of it."""
    made: list[ast.stmt] = []
    named = {f"__ms_{name}__": part for name, part in parts.items()}
    for node in ast.parse(re.sub("<([A-Z]+)>", r"__ms_\1__", textwrap.dedent(text))).body:
        new = _Substitution(origin, named).visit(node)
        made.extend(new if isinstance(new, list) else [new])
    return made


class _Function(ast.NodeTransformer):
    """Rewrites one function."""

    def __init__(self, file: str, is_kernel: bool, node: ast.FunctionDef, outer: frozenset[str]) -> None:
        self.file = file
        self.is_kernel = is_kernel
        self.node = node
        self.loops: list[tuple[str, list[str]]] = []
        self.temporaries = 0
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        self.parameters = {each.arg for each in every if each is not None}
        for each in every:
            if each is not None:
                each.annotation = None
        node.returns = None
        if not is_kernel:
            node.body = _with_rest_in_branches(node.body)
            _result_at_end(node.body)
        constructs = [each for each in self.own(node.body) if isinstance(each, (ast.If, ast.While, ast.For))]
        self.merged = sorted({RESULT, *_assigned(constructs)})
        self.used = outer | frozenset(self.merged)
        self.is_left_early = any(isinstance(each, ast.Return) for each in self.own(node.body)) and not is_kernel

    @staticmethod
    def own(statements: Iterable[ast.AST]) -> Iterable[ast.AST]:
        """Yields the nodes that belong to the function itself."""
        open_ = list(statements)
        while open_:
            node = open_.pop()
            yield node
            if not isinstance(node, _SCOPES):
                open_.extend(ast.iter_child_nodes(node))

    def refuse(self, node: ast.AST, why: str) -> NoReturn:
        raise TraceError(f"{self.file}:{getattr(node, 'lineno', 0)}: `{self.node.name}`: {why}")

    def result(self) -> ast.FunctionDef:
        node = self.node
        key = f"{self.file}:{node.lineno}:{node.name}"
        body = self.block(node.body)
        undefined = [f"{name} = __ms__.undefined({name!r})" for name in self.merged if name not in {RESULT, *self.parameters}]
        head = "\n".join([*undefined, f"{RESULT} = None"])
        node.body = _made(head, node) + _made(
            f"""
            with __ms__.Frame({node.name!r}, {key!r}, {self.is_kernel}, {self.is_left_early}) as __ms_frame__:
                <BODY>
                if __ms_frame__.returns({RESULT}):
                    return __ms_frame__.value
            """,
            node,
            BODY=body,
        )
        return node

    def block(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in statements:
            new = self.visit(statement)
            done.extend(new if isinstance(new, list) else [new])
        return done

    def temporary(self) -> str:
        self.temporaries += 1
        return f"__ms_{self.temporaries}__"

    def visit(self, node: ast.AST) -> Any:
        why = _REFUSED.get(type(node))
        if why is not None:
            self.refuse(node, why)
        return super().visit(node)

    # Statements.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.args.defaults = [self.visit(each) for each in node.args.defaults]
        node.args.kw_defaults = [each and self.visit(each) for each in node.args.kw_defaults]
        return _Function(self.file, False, node, self.used).result()

    def visit_If(self, node: ast.If) -> Any:
        names = _assigned([*node.body, *node.orelse])
        values = ", ".join(names)
        name = self.temporary()
        return _made(
            f"""
            {name} = __ms__.branch(<TEST>, {tuple(names)!r}, {_tuple(names)})
            if {name}.then():
                <BODY>
                {name}.end({values})
            if {name}.otherwise():
                {_tuple(names)} = {name}.entry
                <ELSE>
                {name}.end({values})
            {_tuple(names)} = {name}.after()
            """,
            node,
            TEST=self.visit(node.test),
            BODY=self.block(node.body),
            ELSE=self.block(node.orelse),
        )

    def body_of(self, node: ast.While | ast.For, name: str, names: list[str]) -> list[ast.stmt]:
        if node.orelse:
            self.refuse(node.orelse[0], "a loop of a kernel has no `else`; use a variable")
        self.loops.append((name, names))
        body = self.block(node.body)
        self.loops.pop()
        return body

    def visit_While(self, node: ast.While) -> Any:
        if any(isinstance(each, ast.NamedExpr) for each in ast.walk(node.test)):
            self.refuse(node, "the condition of a `while` cannot assign with `:=`; assign in its body")
        names = _assigned(node.body)
        values = ", ".join(names)
        name = self.temporary()
        return _made(
            f"""
            {name} = __ms__.While({tuple(names)!r}, {_tuple(names)})
            while {name}.round():
                {_tuple(names)} = {name}.start({values})
                if {name}.test(<TEST>):
                    <BODY>
                    {name}.end({values})
            {_tuple(names)} = {name}.after({values})
            """,
            node,
            TEST=self.visit(node.test),
            BODY=self.body_of(node, name, names),
        )

    def visit_For(self, node: ast.For) -> Any:
        indices = _assigned([node.target])
        names = [name for name in _assigned(node.body) if name not in indices]
        values = ", ".join(names)
        name = self.temporary()
        over = node.iter
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range":
            arguments = [self.visit(each) for each in over.args]
            function = ast.Attribute(ast.Name("__ms__", ast.Load()), "range_", ast.Load())
            keywords = [self.visit(each) for each in over.keywords]
            iterable: Any = ast.Call(function, [over.func, *arguments], keywords)
            for each in (iterable, function, function.value):
                ast.copy_location(each, over)
        else:
            iterable = self.visit(over)
        behind = "\n            ".join(f"{index} = {name}.index({index}, {index!r})" for index in indices)
        return _made(
            f"""
            {name} = __ms__.For(<ITERABLE>, {tuple(names)!r}, {_tuple(names)})
            for <TARGET> in {name}:
                {_tuple(names)} = {name}.start({values})
                <BODY>
                {name}.end({values})
            {_tuple(names)} = {name}.after({values})
            {behind}
            """,
            node,
            ITERABLE=iterable,
            TARGET=self.visit(node.target),
            BODY=self.body_of(node, name, names),
        )

    def jump(self, node: ast.stmt, how: str) -> Any:
        name, names = self.loops[-1]
        return _made(f"if {name}.{how}_({', '.join(names)}):\n    {how}", node)

    def visit_Break(self, node: ast.Break) -> Any:
        return self.jump(node, "break")

    def visit_Continue(self, node: ast.Continue) -> Any:
        return self.jump(node, "continue")

    def visit_Return(self, node: ast.Return) -> Any:
        value = ast.copy_location(ast.Constant(None), node) if node.value is None else self.visit(node.value)
        return _made("if __ms_frame__.returns(<VALUE>):\n    return __ms_frame__.value", node, VALUE=value)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        old = self.visit(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
        value = ast.copy_location(ast.BinOp(old, node.op, self.visit(node.value)), node)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        if not isinstance(node.target, ast.Name):
            return ast.copy_location(ast.Assign([self.visit(node.target)], self.visit(node.value)), node)
        text = f"{node.target.id} = __ms__.typed(lambda: <ANNOTATION>, <VALUE>)"
        return _made(text, node, ANNOTATION=node.annotation, VALUE=self.visit(node.value))

    def visit_Assert(self, node: ast.Assert) -> Any:
        if not __debug__:
            return ast.copy_location(ast.Pass(), node)
        text = ast.unparse(node.test)
        message = ast.Constant(None) if node.msg is None else self.delayed(node.msg)
        return _made(f"__ms__.assert_(<TEST>, <MESSAGE>, {text!r})", node, TEST=self.visit(node.test), MESSAGE=message)

    # Expressions.

    def expression(self, node: ast.expr, text: str, **parts: Any) -> ast.expr:
        (made,) = _made(text, node, **parts)
        assert isinstance(made, ast.Expr)
        return made.value

    def delayed(self, node: ast.expr) -> ast.expr:
        """Returns an expression that is computed when it is needed."""
        if any(isinstance(each, ast.NamedExpr) for each in ast.walk(node)):
            self.refuse(node, "an expression that may not be computed cannot assign with `:=`; assign in a statement")
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.copy_location(ast.Lambda(nothing, self.visit(node)), node)

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Load) and node.id in self.used:
            return self.expression(node, "__ms__.use(<NAME>)", NAME=node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        arms = {"THEN": self.delayed(node.body), "ELSE": self.delayed(node.orelse)}
        return self.expression(node, "__ms__.choose(<TEST>, <THEN>, <ELSE>)", TEST=self.visit(node.test), **arms)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        call = self.expression(node, f"__ms__.{name}()")
        assert isinstance(call, ast.Call)
        call.args = [self.delayed(each) for each in node.values]
        return call

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        return self.expression(node, "__ms__.not_(<VALUE>)", VALUE=self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1:
            return self.generic_visit(node)
        operators = tuple(type(each).__name__ for each in node.ops)
        call = self.expression(node, f"__ms__.chain({operators!r})")
        assert isinstance(call, ast.Call)
        call.args.extend(self.delayed(each) for each in (node.left, *node.comparators))
        return call

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, (ast.Name, ast.Attribute)):
            node.func = self.expression(node.func, "__ms__.call(<FUNCTION>)", FUNCTION=node.func)
        return node
