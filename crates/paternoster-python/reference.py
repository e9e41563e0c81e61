# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes docs/python-api.md from the package's stubs and signatures: python reference.py [FILE].

Nothing is imported: names come from `__all__`, signatures and docstrings from the sources. A test
compares the page with this script's output.
"""

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "python" / "paternoster_io"
MODULES = ["_runs", "_jobs", "_fleet", "sweeps", "_gate", "_elevators", "_errors", "_native"]
HEAD = """# Python: the interface

Made from the package's stubs by `crates/paternoster-python/reference.py`; [Python](python.md) explains it.
"""


def sources() -> dict[str, ast.Module]:
    """Each module, parsed; for the compiled one, its stub."""
    found = {}
    for name in MODULES:
        path = PACKAGE / f"{name}.py"
        path = path if path.exists() else path.with_suffix(".pyi")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def public() -> list[str]:
    """The names in `__all__`."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (names,) = (
        node.value for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    )  # fmt: skip
    return [name for name in ast.literal_eval(names) if not name.startswith("__")]


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str | None = None) -> str:
    """A signature, with one argument per line if it is long."""
    arguments = ast.unparse(node.args)
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    name = f"{owner}.{node.name}" if owner else node.name
    short = f"{name}({arguments}){result}"
    if len(short) <= 100:
        return short
    pieces, depth, piece = [], 0, ""
    for letter in arguments:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            pieces.append(piece.strip())
            piece = ""
        else:
            piece += letter
    pieces.append(piece.strip())
    return f"{name}(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){result}"


def words(node: ast.AST) -> str:
    """The docstring, with its paragraphs unchanged."""
    return (ast.get_docstring(node) or "").replace("<", "\\<")


def entry(node: ast.stmt) -> str:
    """The entry for one name."""
    if isinstance(node, ast.FunctionDef):
        return f"```python\n{signature(node)}\n```\n\n{words(node)}\n"
    if not isinstance(node, ast.ClassDef):
        return f"```python\n{ast.unparse(node)}\n```\n"
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = [f"class {node.name}" + (f"({bases})" if bases else "")]
    told = []
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            lines.append(f"    {member.target.id}: {ast.unparse(member.annotation)}")
        elif isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
            hidden = member.name.startswith("_") and member.name not in ("__init__", "__new__")
            if hidden:
                continue
            marks = [ast.unparse(mark) for mark in member.decorator_list]
            kind = "property " if "property" in marks else ""
            shown = signature(member, node.name if not kind else None)
            lines += ["    " + line for line in (kind + shown).splitlines()]
            if words(member):
                told.append(f"* `{member.name}`: " + " ".join(words(member).split()))
    text = "```python\n" + "\n".join(lines) + "\n```\n\n" + words(node) + "\n"
    return text + ("\n" + "\n".join(map(wrapped, told)) + "\n" if told else "")


def wrapped(line: str, width: int = 110) -> str:
    """A list item, wrapped into lines."""
    out, now = [], ""
    for word in line.split(" "):
        if now and len(now) + 1 + len(word) > width:
            out.append(now)
            now = "  " + word
        else:
            now = f"{now} {word}" if now else word
    return "\n".join([*out, now])


def page() -> str:
    """The whole page."""
    trees, parts = sources(), [HEAD]
    for name in public():
        for tree in trees.values():
            found = [node for node in tree.body if _defines(node, name)]
            if found:
                parts.append(f"## {name}\n\n{entry(found[0])}")
                break
        else:
            raise SystemExit(f"{name} is public, and no module defines it")
    parts.append("## sweeps\n\n`from paternoster_io import sweeps`; see [sweeps](sweeps.md).\n")
    for node in trees["sweeps"].body:
        if isinstance(node, ast.FunctionDef) and node.name[0] != "_" and node.name != "main":
            parts.append(entry(node))
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return node.name == name
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(target, ast.Name) and target.id == name


if __name__ == "__main__":
    default = Path(__file__).parents[2] / "docs" / "python-api.md"
    (Path(sys.argv[1]) if len(sys.argv) > 1 else default).write_text(page(), encoding="utf-8")
