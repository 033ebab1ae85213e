"""The structure of the package: import direction, module size, names and broad excepts.

Every check is a function of a folder, so that a planted violation shows that it can fail.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

from tests import ROOT

PACKAGE = ROOT / "proverrl"

# Lowest first. A module may import from its own layer and from those below, never from above.
LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "__init__ version types errors seeds files statistics concurrency text_cache plugins",
        "config parallel",
        "verifier",
        "lang",
        "generate",
        "problems benchmarks policy",
        "rollout rewards advantages",
        "losses learner curriculum",
        "compose search evaluation",
        "monitor report",
        "run",
        "loops",
        "jobs",
        "integrations",
        "serve",
        "api",
        "cli __main__",
        "lab",
    )
)

LANGUAGES = ("dafny", "lean")
# The rooms of a language, lowest first.
LANGUAGE_ROOMS = "syntax known_bugs audit compose verify search".split()
# Rooms that read the files of others, which are in one language each; and experiments.
KNOW_A_LANGUAGE = (
    "lang/",
    "generate/",
    "lab/",
    "benchmarks/lean_text",
    "benchmarks/programs",
    "benchmarks/statement_rows",
)
MAX_LINES = 600
MAX_LOOP_LINES = 300
# Who shows a verdict's checks to a person; for all others there are its other fields.
PRINTERS = ("evaluation/recheck.py", "cli/ci_reports.py", "problems/inputs.py", "search/folder.py")
FORBIDDEN_NAMES = frozenset({"utils", "helpers", "common", "manager"})
# The sinks of the monitor, the top of the CLI and modules of somebody else: nowhere else may a bug
# be caught.
BROAD_EXCEPT_ALLOWED = ("cli/main.py", "monitor/", "plugins.py")


def module_parts(package: Path, path: Path) -> tuple[str, ...]:
    """``proverrl/verifier/pool.py`` as ``("proverrl", "verifier", "pool")``."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


# Of a text, because planted violations are written over.
parse = functools.cache(ast.parse)


def iter_modules(package: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(package.rglob("*.py")):
        yield path, parse(path.read_text("utf-8"), str(path))


def layer_of(parts: tuple[str, ...]) -> int | None:
    name = parts[1] if len(parts) > 1 else "__init__"
    return next((i for i, layer in enumerate(LAYERS) if name in layer), None)


def resolve_from(node: ast.ImportFrom, parts: tuple[str, ...], is_package: bool) -> tuple[str, ...]:
    """The absolute name of the module that a ``from ... import`` reads from."""
    names = tuple(node.module.split(".")) if node.module else ()
    if node.level == 0:
        return names
    own_package = parts if is_package else parts[:-1]
    return own_package[: len(own_package) - (node.level - 1)] + names


def iter_imports(path: Path, tree: ast.Module, package: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every module of the package that a module imports, anywhere."""
    parts = module_parts(package, path)
    top = package.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == top:
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = resolve_from(node, parts, path.name == "__init__.py")
            if base[:1] != (top,):
                continue
            for alias in node.names:
                # `from proverrl import cli` names a module; a record of proverrl.types does not.
                full = (*base, alias.name)
                is_module = (package.parent.joinpath(*full)).is_dir() or (
                    package.parent.joinpath(*full).with_suffix(".py").is_file()
                )
                yield node.lineno, ".".join(full if is_module else base)
        elif isinstance(node, ast.Call) and node.args:
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            first = node.args[0]
            if (
                name in ("import_module", "__import__")
                and isinstance(first, ast.Constant)
                and str(first.value).split(".")[0] == top
            ):
                yield node.lineno, str(first.value)


def find_upward_imports(package: Path) -> list[str]:
    found = []
    for path, tree in iter_modules(package):
        own = layer_of(module_parts(package, path))
        if own is None:
            continue
        if path == package / "__init__.py":
            # What the package offers by name it fetches when it is asked for: no module of it
            # is imported with the package.
            tree = ast.Module([n for n in tree.body if getattr(n, "name", "") != "__getattr__"], [])
        for line, target in iter_imports(path, tree, package):
            other = layer_of(tuple(target.split(".")))
            if other is not None and other > own:
                found.append(f"{path.relative_to(package)}:{line} imports {target}")
    return found


def find_upward_rooms(package: Path) -> list[str]:
    """Imports of a language's room from one above it in the same language."""
    found = []
    for language in LANGUAGES:
        for path, tree in iter_modules(package / "lang" / language):
            own, *below = path.relative_to(package / "lang" / language).parts
            if not below:
                continue
            for line, target in iter_imports(path, tree, package):
                names = target.split(".")[1:]
                is_near = names[:2] == ["lang", language] and names[2] in LANGUAGE_ROOMS
                if is_near and LANGUAGE_ROOMS.index(names[2]) > LANGUAGE_ROOMS.index(own):
                    found.append(f"{path.relative_to(package)}:{line} imports {target}")
    return found


def find_branches(package: Path) -> list[str]:
    """Places outside ``lang`` that ask a language's name, or take something from its room."""
    rooms = tuple(f"{package.name}.lang.{name}" for name in LANGUAGES)
    found = []
    for path, tree in iter_modules(package):
        relative = path.relative_to(package).as_posix()
        if relative.startswith(KNOW_A_LANGUAGE):
            continue
        found += [
            f"{relative}:{line} imports {target}"
            for line, target in iter_imports(path, tree, package)
            if target.startswith(rooms)
        ]
        for node in ast.walk(tree):
            asked: list[ast.expr | None] = []
            if isinstance(node, ast.Compare):
                asked = [node.left, *node.comparators]
            elif isinstance(node, ast.Dict):
                keys = [getattr(key, "value", None) for key in node.keys]
                # A layout may be called as a language is, among others.
                asked = list(node.keys) if set(keys) <= set(LANGUAGES) else []
            elif isinstance(node, ast.MatchValue):
                asked = [node.value]
            inner = [item for part in asked if part for item in ast.walk(part)]
            names = [item.value for item in inner if isinstance(item, ast.Constant)]
            if any(name in LANGUAGES for name in names):
                line = asked[0].lineno if asked[0] is not None else 0
                found.append(f"{relative}:{line} asks for {names}")
    return found


def find_circles(package: Path) -> list[str]:
    """Rooms and modules that import each other, directly or in a round."""
    modules = {".".join(module_parts(package, path)) for path, _ in iter_modules(package)}
    by_room: nx.DiGraph[str] = nx.DiGraph()
    by_module: nx.DiGraph[str] = nx.DiGraph()
    for path, tree in iter_modules(package):
        own = ".".join(module_parts(package, path))
        for _, target in iter_imports(path, tree, package):
            if target in modules and target != own:
                by_module.add_edge(own, target)
            mine, other = (name.split(".")[1:2] for name in (own, target))
            if mine and other and mine != other:
                by_room.add_edge(mine[0], other[0])
    return [
        " <-> ".join(sorted(circle))
        for graph in (by_room, by_module)
        for circle in nx.strongly_connected_components(graph)
        if len(circle) > 1
    ]


def find_homeless_modules(package: Path) -> list[str]:
    return [
        str(path.relative_to(package))
        for path, _ in iter_modules(package)
        if layer_of(module_parts(package, path)) is None
    ]


def is_broad(expression: ast.expr | None) -> bool:
    if expression is None:
        return True
    if isinstance(expression, ast.Tuple):
        return any(is_broad(item) for item in expression.elts)
    name = expression.attr if isinstance(expression, ast.Attribute) else None
    name = expression.id if isinstance(expression, ast.Name) else name
    return name in ("Exception", "BaseException")


def find_broad_excepts(package: Path) -> list[str]:
    """Handlers that swallow any exception, also ``suppress(Exception)``.

    One that ends in a bare ``raise`` cleans up and swallows nothing, so it is not one of them.
    """
    found = []
    for path, tree in iter_modules(package):
        relative = path.relative_to(package).as_posix()
        if any(relative.startswith(allowed) for allowed in BROAD_EXCEPT_ALLOWED):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and is_broad(node.type):
                last = node.body[-1]
                if isinstance(last, ast.Raise) and last.exc is None:
                    continue
                found.append(f"{relative}:{node.lineno}")
            elif isinstance(node, ast.Call):
                called = node.func
                name = (
                    called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                )
                if name == "suppress" and any(is_broad(argument) for argument in node.args):
                    found.append(f"{relative}:{node.lineno}")
    return found


def find_long_modules(package: Path, folder: str = "", most: int = MAX_LINES) -> list[str]:
    """Modules in a folder of the package with more than so many lines."""
    return [
        f"{path.relative_to(package)}: {num_lines} lines"
        for path in sorted((package / folder).rglob("*.py"))
        if (num_lines := len(path.read_text("utf-8").splitlines())) > most
    ]


def find_long_loops(package: Path) -> list[str]:
    return find_long_modules(package, "loops", MAX_LOOP_LINES)


def find_readers_of_checks(package: Path) -> list[str]:
    """Places that read what a verdict's checks say, but to make other checks of them."""
    found = []
    for path, tree in iter_modules(package):
        relative = path.relative_to(package).as_posix()
        if relative in PRINTERS:
            continue
        made: set[ast.AST] = set()
        for node in ast.walk(tree):
            names = [node.arg] if isinstance(node, ast.keyword) else []
            names += map(ast.unparse, node.targets) if isinstance(node, ast.Assign) else []
            if names == ["checks"]:
                made.update(ast.walk(node))
        found += [
            f"{relative}:{node.lineno}"
            for node in ast.walk(tree)
            if (isinstance(node, ast.Attribute) and node.attr == "checks" and node not in made)
            or (isinstance(node, ast.Constant) and node.value == "checks")
        ]
    return found


def find_namers_of_the_lab(package: Path) -> list[str]:
    """Places of the core that name a module of the lab, as code or in a text."""
    return [
        f"{path.relative_to(package)}:{number}"
        for path in sorted(package.rglob("*.py*"))
        if path.suffix in (".py", ".pyi") and path.relative_to(package).parts[0] != "lab"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(r"proverrl[./]lab\b", line)
    ]


def find_forbidden_names(package: Path) -> list[str]:
    return [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*"))
        if (path.suffix == ".py" or path.is_dir()) and path.stem in FORBIDDEN_NAMES
    ]


def find_twin_names(package: Path) -> list[str]:
    """Types of one name in two modules. The rooms of the languages may call the same thing by the
    same name, each once."""
    places: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for path, tree in iter_modules(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(module_parts(package, path))
    found = []
    for name, modules in sorted(places.items()):
        rooms = {m[2] for m in modules if m[1] in ("lang", "generate") and m[2] in LANGUAGES}
        if len(modules) > 1 and len(rooms) != len(modules):
            found.append(f"{name}: " + ", ".join(".".join(m[1:]) for m in modules))
    return found


def test_imports_never_point_up() -> None:
    assert find_upward_imports(PACKAGE) == []
    assert find_upward_rooms(PACKAGE) == []


def test_nothing_goes_in_circles() -> None:
    assert find_circles(PACKAGE) == []


def test_nobody_asks_a_language_by_its_name() -> None:
    assert find_branches(PACKAGE) == []


def test_every_module_belongs_to_a_layer() -> None:
    assert find_homeless_modules(PACKAGE) == []
    names = [name for layer in LAYERS for name in layer]
    assert len(names) == len(set(names))


def test_no_module_is_too_long() -> None:
    assert find_long_modules(PACKAGE) == []


def test_no_loop_is_too_long() -> None:
    assert find_long_loops(PACKAGE) == []


def test_what_is_said_of_checks_decides_nothing() -> None:
    found = find_readers_of_checks(PACKAGE)
    # That a proof must have some.
    assert {place.partition(":")[0] for place in found} == {"types.py"}


def test_the_core_knows_nothing_of_the_lab() -> None:
    assert find_namers_of_the_lab(PACKAGE) == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    assert find_forbidden_names(PACKAGE) == []


def test_no_type_name_means_two_things() -> None:
    assert find_twin_names(PACKAGE) == []


@pytest.mark.slow
def test_broad_excepts_stand_at_the_boundaries_only() -> None:
    assert find_broad_excepts(PACKAGE) == []


def plant(tmp_path: Path, files: dict[str, str]) -> Path:
    package = tmp_path / "proverrl"
    for name, text in {
        "__init__.py": "",
        "cli.py": "",
        "verifier/__init__.py": "",
        **files,
    }.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return package


@pytest.mark.parametrize(
    ("name", "text", "line", "target"),
    [
        ("types.py", "import proverrl.cli\n", 1, "proverrl.cli"),
        ("types.py", "from proverrl import cli\n", 1, "proverrl.cli"),
        ("types.py", "from proverrl.cli import main as m\n", 1, "proverrl.cli"),
        ("types.py", "def f():\n    from proverrl.verifier import pool\n", 2, "proverrl.verifier"),
        (
            "config.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .verifier import x\n",
            3,
            "proverrl.verifier",
        ),
        ("verifier/pool.py", "from .. import cli\n", 1, "proverrl.cli"),
        ("verifier/__init__.py", "from ..cli import main\n", 1, "proverrl.cli"),
        ("__init__.py", "from . import cli\n", 1, "proverrl.cli"),
        (
            "rewards.py",
            "import importlib\nimportlib.import_module('proverrl.loops.grpo')\n",
            2,
            "proverrl.loops.grpo",
        ),
    ],
)
def test_a_planted_upward_import_is_found(
    tmp_path: Path, name: str, text: str, line: int, target: str
) -> None:
    package = plant(tmp_path, {name: text})
    assert find_upward_imports(package) == [f"{name}:{line} imports {target}"]


def test_a_core_that_knows_the_lab_is_found(tmp_path: Path) -> None:
    package = plant(
        tmp_path,
        {
            "rewards/a.py": "from proverrl.lab import x\n",
            "rewards/b.py": 'NAME = "proverrl.lab.x:reward"\n',
            "lab/__init__.py": "",
            "lab/x.py": "from proverrl.lab import y\nfrom proverrl.cli import main\n",
        },
    )
    assert find_namers_of_the_lab(package) == ["rewards/a.py:1", "rewards/b.py:1"]
    assert find_upward_imports(package) == ["rewards/a.py:1 imports proverrl.lab.x"]


def test_a_planted_circle_is_found(tmp_path: Path) -> None:
    package = plant(
        tmp_path,
        {
            "rewards/__init__.py": "",
            "rewards/a.py": "from proverrl.advantages.b import x\n",
            "advantages/__init__.py": "",
            "advantages/b.py": "def f():\n    from proverrl.rewards import a\n",
            "types.py": "from proverrl.verifier import pool\n",
        },
    )
    assert find_circles(package) == [
        "advantages <-> rewards",
        "proverrl.advantages.b <-> proverrl.rewards.a",
    ]


def test_planted_branches_on_a_language_are_found(tmp_path: Path) -> None:
    package = plant(
        tmp_path,
        {
            "search/__init__.py": "",
            "search/a.py": 'def f(p):\n    if p.language != "lean":\n        return {"dafny": 1}\n',
            "search/b.py": 'from proverrl.lang.dafny import audit\nOK = g("lean")\n',
            "search/c.py": 'def f(p):\n    return p in ("dafny", "x")\n',
            "lang/a.py": "from proverrl.lang.dafny import audit\n",
            "lang/dafny/audit.py": "",
        },
    )
    assert find_branches(package) == [
        "search/a.py:2 asks for ['lean']",
        "search/a.py:3 asks for ['dafny']",
        "search/b.py:1 imports proverrl.lang.dafny.audit",
        "search/c.py:2 asks for ['dafny', 'x']",
    ]


def test_a_planted_arrow_between_the_rooms_of_a_language_is_found(tmp_path: Path) -> None:
    package = plant(
        tmp_path,
        {
            "lang/dafny/language.py": "from proverrl.lang.dafny.verify import judge\n",
            "lang/dafny/syntax/a.py": "import re\nfrom proverrl.lang.dafny.audit import b\n",
            "lang/dafny/audit/b.py": "from proverrl.lang.dafny.syntax import a\n",
            "lang/lean/verify/c.py": "from proverrl.lang.dafny.search.d import e\n",
        },
    )
    assert find_upward_rooms(package) == [
        "lang/dafny/syntax/a.py:2 imports proverrl.lang.dafny.audit.b"
    ]


def test_imports_that_point_down_or_sideways_pass(tmp_path: Path) -> None:
    package = plant(
        tmp_path,
        {
            "cli.py": "import proverrl.types\nfrom proverrl.verifier import pool\n",
            "verifier/pool.py": "from . import base\nfrom ..config import x\nimport json\n",
            "verifier/base.py": "from proverrl.types import Verdict\n",
            "types.py": "import proverrl_other\n",
        },
    )
    assert find_upward_imports(package) == []


def test_a_planted_module_without_a_layer_is_found(tmp_path: Path) -> None:
    package = plant(tmp_path, {"misc/tools.py": ""})
    assert find_homeless_modules(package) == ["misc/tools.py"]


def test_a_planted_broad_except_is_found(tmp_path: Path) -> None:
    swallow = "try:\n    pass\nexcept {}:\n    pass\n"
    package = plant(
        tmp_path,
        {
            "types.py": swallow.format("Exception"),
            "errors.py": "try:\n    pass\nexcept:\n    pass\n",
            "config.py": swallow.format("(OSError, BaseException)"),
            "rewards.py": "from contextlib import suppress\nwith suppress(Exception):\n    pass\n",
            "losses.py": "try:\n    pass\nexcept BaseException:\n    x = 1\n    raise\n",
            "learner.py": swallow.format("ValueError"),
            "cli/main.py": swallow.format("Exception"),
            "monitor/sinks.py": swallow.format("Exception"),
        },
    )
    assert find_broad_excepts(package) == [
        "config.py:3",
        "errors.py:3",
        "rewards.py:2",
        "types.py:3",
    ]


def test_a_planted_long_module_and_a_bad_name_are_found(tmp_path: Path) -> None:
    package = plant(
        tmp_path, {"types.py": "\n" * 601, "errors.py": "\n" * 600, "verifier/utils.py": ""}
    )
    assert find_long_modules(package) == ["types.py: 601 lines"]
    assert find_forbidden_names(package) == ["verifier/utils.py"]


def test_planted_readers_of_checks_are_found(tmp_path: Path) -> None:
    package = plant(
        tmp_path,
        {
            "rewards/a.py": 'def f(v):\n    return "x" in v.checks\n',
            "rewards/b.py": 'def f(row):\n    return row["checks"]\n',
            "rewards/c.py": "def f(v):\n    checks = (*v.checks, 1)\n    r(v, checks=checks)\n",
            "search/folder.py": "def f(v):\n    return list(v.checks)\n",
        },
    )
    assert find_readers_of_checks(package) == ["rewards/a.py:2", "rewards/b.py:2"]


def test_a_planted_twin_name_is_found(tmp_path: Path) -> None:
    package = plant(
        tmp_path,
        {
            "lang/dafny/syntax.py": "class Token: ...\nclass Entry: ...\n",
            "lang/lean/syntax.py": "class Token: ...\n",
            "benchmarks/base.py": "class _Entry: ...\n",
        },
    )
    assert find_twin_names(package) == ["Entry: benchmarks.base, lang.dafny.syntax"]


def test_a_planted_long_loop_is_found(tmp_path: Path) -> None:
    files = {"loops/grpo.py": 301, "loops/a/b.py": 302, "loops/c.py": 300, "policy/d.py": 301}
    package = plant(tmp_path, {name: "\n" * num_lines for name, num_lines in files.items()})
    assert find_long_loops(package) == ["loops/a/b.py: 302 lines", "loops/grpo.py: 301 lines"]
    assert find_long_modules(package) == []


def test_importing_the_cli_does_not_import_torch() -> None:
    code = (
        "import sys, proverrl.cli.main\n"
        "print([name for name in ('torch', 'transformers', 'datasets') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout == "[]\n"


def test_one_console_is_opened_in_one_place() -> None:
    """Two that draw on one screen draw over each other; ``open_console`` chooses."""
    found = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"(?<!class )\b(Panel)?Console\(", path.read_text("utf-8"))
    ]
    assert found == ["monitor/console.py"]


def test_verify_imports_nothing_that_it_does_not_use() -> None:
    """Answers from the cache take as long as the imports."""
    code = (
        "import sys, proverrl.cli.verdicts\n"
        "print([name for name in ('torch', 'scipy', 'jinja2', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.stderr, done.stdout) == ("", "[]\n")
