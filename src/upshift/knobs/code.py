"""Values that sit in code: every place where a name is given a literal, with the exact span of the literal.

The name may be that of the parameter which an argument fills by its place: `DataLoader(data, 8)`.

Found with `ast`, changed by cutting out the span, so that all else in the file stays byte for byte.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from upshift.knobs.config_file import scalar

_LINE_END = re.compile(r"\r\n|\r|\n")
"""As Python counts them: a form feed ends no line."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """One literal."""

    name: str
    """What it is called: a variable, an argument, a key; with the surrounding function or class before a dot."""
    value: object
    line: int
    start: int
    """Offset of the literal in the text."""
    stop: int
    how: str
    """`constant`, `attribute`, `argument`, `default`, `key`, `flag` (the default of one) or `variable` (of the
    environment)."""
    spelt: str = ""
    """The flag or variable whose default it is, as it is typed; it may have dots."""

    @property
    def last(self) -> str:
        """The name without what surrounds it."""
        return self.name.rpartition(".")[2]


def sites(text: str) -> list[Site]:
    """All of them, in the order of the text. Raises SyntaxError for what is not Python."""
    tree = ast.parse(text)
    offsets = line_offsets(text)
    return sorted(_walk(tree, "", text, offsets, _signatures(tree)), key=lambda s: s.start)


def with_value(text: str, site: Site, value: object) -> str:
    """The text with this literal replaced."""
    return text[: site.start] + repr(value) + text[site.stop :]


def line_offsets(text: str) -> list[int]:
    """Where each line begins."""
    return [0, *(end.end() for end in _LINE_END.finditer(text)), len(text)]


_LOADER = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")
Signatures = Mapping[str, tuple[str, ...]]
"""Names of the positional parameters of what is called by a name."""


def _signatures(tree: ast.Module) -> Signatures:
    """Of what the file defines itself, and of torch's DataLoader. What is defined twice is not known by its name."""
    found: dict[str, list[tuple[str, ...]]] = {"DataLoader": [_LOADER]}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, []).append(_parameters(node))
        elif isinstance(node, ast.ClassDef):
            made = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
            fields = [
                n.target.id
                for n in node.body
                if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
            ]
            found.setdefault(node.name, []).append(_parameters(made[0]) if made else tuple(fields))
    return {name: each[0] for name, each in found.items() if len(each) == 1}


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, ...]:
    names = [a.arg for a in node.args.posonlyargs + node.args.args]
    return tuple(names[1:] if names[:1] in (["self"], ["cls"]) else names)


def _walk(node: ast.AST, scope: str, text: str, offsets: list[int], signatures: Signatures) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{scope}{child.name}."
        for name, value, how in _named(child, signatures):
            found = literal(value)
            if how == "variable" and isinstance(found, str):
                found = scalar(found)
            if found is not NOTHING:
                start, stop = span(value, text, offsets)
                yield Site(
                    name=inner + name if how != "default" else f"{inner}{name}",
                    value=found,
                    line=value.lineno,
                    start=start,
                    stop=stop,
                    how=how,
                    spelt={"flag": "--" + name, "variable": name}.get(how, ""),
                )
        yield from _walk(child, inner, text, offsets, signatures)


def _named(node: ast.AST, signatures: Signatures) -> Iterator[tuple[str, ast.expr, str]]:
    """(name, value, how) given in this very node."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value, "constant"
            elif isinstance(target, ast.Attribute):
                yield target.attr, node.value, "attribute"
            elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                yield str(target.slice.value), node.value, "key"
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for part, value in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(part, ast.Name):
                        yield part.id, value, "constant"
    elif isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
        yield node.target.id, _field_default(node.value), "constant"
    elif isinstance(node, ast.Call):
        flag, name = _flag(node), called(node)
        if name in ("getenv", "get") and _is_environment(node.func) and len(node.args) == 2:
            if isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value), node.args[1], "variable"
        elif flag and name.startswith("DEFINE_") and len(node.args) > 1:
            yield flag, node.args[1], "flag"
        elif not any(isinstance(a, ast.Starred) for a in node.args):
            for parameter, value in zip(signatures.get(name, ()), node.args, strict=False):
                yield parameter, value, "argument"
        for keyword in node.keywords:
            if keyword.arg == "default" and flag:
                yield flag, keyword.value, "flag"
            elif keyword.arg:
                yield keyword.arg, keyword.value, "argument"
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value, "key"
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        positional = node.args.posonlyargs + node.args.args
        for argument, default in zip(
            positional[-len(node.args.defaults) :], node.args.defaults, strict=False
        ):
            yield argument.arg, _field_default(default), "default"
        for argument, keyword_default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if keyword_default is not None:
                yield argument.arg, _field_default(keyword_default), "default"


def _field_default(value: ast.expr) -> ast.expr:
    """`field(default=8)` means 8, and so do pydantic's `Field(8)` and typer's `Option(8)`."""
    if isinstance(value, ast.Call):
        for keyword in value.keywords:
            if keyword.arg == "default":
                return keyword.value
        if value.args and called(value) in ("Field", "Option"):
            return value.args[0]
    return value


def called(node: ast.Call) -> str:
    """The last part of the name of what is called: `DataLoader` of `torch.utils.data.DataLoader`."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_environment(function: ast.expr) -> bool:
    """`environ.get` or `getenv`, of `os` or by themselves?"""
    return bool(re.fullmatch(r"(os\.)?(environ\.get|getenv)", ast.unparse(function)))


def _flag(node: ast.Call) -> str | None:
    """`--batch-size` of `parser.add_argument("--batch-size", …)`, or of absl's `DEFINE_integer("batch-size", …)`."""
    if not re.fullmatch(r"add_argument|option|add_arg|DEFINE_\w+", called(node)):
        return None
    flags = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return next((f.lstrip("-") for f in flags if f.startswith("--")), flags[0].lstrip("-") if flags else None)


NOTHING = object()
"""No literal: a name, a call."""


def literal(node: ast.expr) -> object:
    """The value that is written there, or NOTHING."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | bool):
        return node.value
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        try:
            return _arithmetic(node)
        except ValueError:
            return NOTHING
    return NOTHING


def _arithmetic(node: ast.expr) -> float | int:
    """`2 * 16` and the like."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_arithmetic(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _arithmetic(node.left), _arithmetic(node.right)
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.FloorDiv) and right:
            return left // right
        if isinstance(node.op, ast.Pow) and 0 <= right <= 64:
            return left**right
    raise ValueError


def span(node: ast.expr, text: str, offsets: list[int]) -> tuple[int, int]:
    """Character offsets of a node; ast counts columns in UTF-8 bytes."""
    assert node.end_lineno is not None and node.end_col_offset is not None

    def offset(line: int, column: int) -> int:
        start = offsets[line - 1]
        end = offsets[line] if line < len(offsets) else len(text)
        return start + len(text[start:end].encode()[:column].decode())

    return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)
