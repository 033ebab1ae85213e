"""Modules that docstrings name, and code that the two pages about it name, are there."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from proverrl.config.keys import iter_keys
from tests import ROOT
from tests.house.test_imports import PACKAGE, iter_modules, module_parts

# Keys of the configuration, files and entry points look the same.
KEYS = {key.name for key in iter_keys()}
OTHER = re.compile(r".*\.(html|js|json|jsonl|toml|lean)|proverrl\.(SEAM|kind)|dafny\.decide")
DOTTED = re.compile(r"``([a-z_]+(?:\.\w+)+)``")
CODE = re.compile(r"`([A-Z]\w*[a-z]\w*(?:\.\w+)?|[A-Z]+(?:_[A-Z]+)*)`")


def list_names(tree: ast.AST) -> set[str]:
    """What a module or class defines or imports, methods as ``Class.method``."""
    found = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            found |= {node.name, *(f"{node.name}.{name}" for name in list_names(node))}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        else:
            found |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found


def find_lost(text: str, module: str, known: Mapping[str, Collection[str]]) -> Iterator[str]:
    """The dotted names of a docstring that lead nowhere; they may begin at a folder above."""
    parents = [module.rsplit(".", n)[0] + "." for n in range(1, module.count(".") + 1)]
    for name in DOTTED.findall(text):
        if name in KEYS or OTHER.fullmatch(name):
            continue
        places = [""] if name.startswith("proverrl.") else parents
        first = name.partition(".")[0]
        cuts = [n.start() for n in re.finditer(r"\.", name)]
        if any(place + first in known for place in places) and not any(
            place + name in known
            or any(name[cut + 1 :] in known.get(place + name[:cut], ()) for cut in cuts)
            for place in places
        ):
            yield name


def test_names_lead_somewhere() -> None:
    trees = {".".join(module_parts(PACKAGE, path)): tree for path, tree in iter_modules(PACKAGE)}
    known = {module: list_names(tree) for module, tree in trees.items()}
    lost = {m: [*find_lost(ast.get_docstring(t) or "", m, known)] for m, t in trees.items()}
    assert {module: names for module, names in lost.items() if names} == {}
    assert [*find_lost("``run.gone``, ``run.state``", "proverrl.x.y", known)] == ["run.gone"]
    code = {name for names in known.values() for name in names}
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"):
        named: set[str] = set(CODE.findall(page.read_text("utf-8")))
        assert named - code == set(), page.name
