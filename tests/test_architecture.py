"""The walls of the house: floors, private imports, public exports."""

import ast
import functools
import importlib
import subprocess
import sys
from pathlib import Path

import skdp

ROOT = Path(skdp.__file__).parent
#: A floor imports only floors below it.
FLOORS = {
    "data": 0, "privacy": 0, "mechanisms": 1, "problems": 2, "solvers": 3, "algorithms": 4,
    "methods": 5, "linear_model": 6, "preprocessing": 6, "robust": 6, "model_selection": 6,
    "synthetic": 6, "tabular": 6, "audit": 7, "inspection": 7,
}  # fmt: skip
#: Modules below all floors: they import nothing of the package.
BELOW = {"_checks", "_types", "_records", "_runtime"}
#: Modules at the top of the package, and the floors that they stand on.
TOP = {"_estimator": 6, "_model": 6, "_sources": 6, "_units": 6, "utils": 7}
#: Stricter than the order: who must not know whom (wall 1).
FORBIDDEN = {
    ("data", "privacy"),  # a source knows nothing of what is done with its records
    ("privacy", "data"),
    ("mechanisms", "problems"),
    ("solvers", "mechanisms"),
    ("problems", "mechanisms"),
    # what all estimators share is in _estimator.py, not in the linear ones
    ("synthetic", "linear_model"),
    ("preprocessing", "linear_model"),
    ("inspection", "linear_model"),
}
RUNTIME = {"joblib", "numpy", "scipy", "sklearn", "skdp", "threadpoolctl"} | set(
    sys.stdlib_module_names
)
OPTIONAL = {"dask", "distributed", "dp_accounting", "matplotlib", "opendp", "pyarrow"}


@functools.cache
def parsed(path):
    """The tree of a file, without what is there for type checkers only."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    return tree


def imports(path):
    """Absolute module names that a file imports, with the names taken from each."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ()
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module, tuple(alias.name for alias in node.names)


FILES = sorted(ROOT.rglob("*.py"))


def test_floors():
    floors, wrong = FLOORS | TOP, []
    for path in FILES:
        package = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for module, names in imports(path):
            other = module.removeprefix("skdp.").split(".")[0]
            if not module.startswith("skdp.") or package not in floors or other in BELOW:
                continue
            # the relation between neighbours and nothing else of the privacy floor
            is_more = (package, other) == ("problems", "privacy") and names != ("Neighbouring",)
            if floors[other] > floors[package] or (package, other) in FORBIDDEN or is_more:
                wrong.append(f"{path} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_dependencies_are_declared_and_public():
    wrong = []
    for path in FILES:
        for module, names in imports(path):
            parts = [*module.split("."), *names]
            if parts[0] not in RUNTIME | OPTIONAL:
                wrong.append(f"{path} imports {module}")
            has_private = any(part.startswith("_") for part in parts)
            if parts[0] in ("sklearn", "scipy", "numpy") and has_private:
                wrong.append(f"{path}: private {'.'.join(parts)}")
    assert not wrong, "\n".join(wrong)


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_attributes(tree):
    """Names that a file defines, and private ones that it takes from objects."""
    defined, taken = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            (defined if isinstance(node.ctx, ast.Store) else taken).add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
            name = getattr(node.args[1], "value", None)
            taken |= {name} if isinstance(name, str) and is_private(name) else set()
    return defined, taken


def test_private_attributes_are_those_of_the_package():
    """None of scikit-learn, numpy or scipy; of the library, the documented ones of named tuples."""
    found = [private_attributes(parsed(path)) for path in FILES]
    defined = {"_asdict", "_replace"}.union(*(names for names, _ in found))
    assert set().union(*(names for _, names in found)) - defined == set()
    wrong = "code = Pipeline._fit.__code__; getattr(step, '_validate_steps')"
    assert private_attributes(ast.parse(wrong))[1] == {"_fit", "_validate_steps"}


def test_every_package_is_on_a_floor():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(FLOORS)
    modules = {path.stem for path in ROOT.glob("*.py")}
    assert modules == BELOW | set(TOP) | {"__init__"}
    for name in BELOW:
        assert not any(module.startswith("skdp") for module, _ in imports(ROOT / f"{name}.py"))


def test_public_names_exist():
    for path in ROOT.rglob("__init__.py"):
        name = ".".join(["skdp", *path.parent.relative_to(ROOT).parts])
        module = __import__(name, fromlist=["__all__"])
        assert all(hasattr(module, public) for public in module.__all__)


def test_the_package_lists_its_names_and_packages():
    """A name loads its package and what that imports, no heavy one; scikit-learn loads pandas."""
    heavy = [*(OPTIONAL - {"pyarrow"}), "polars", "skdp.data.parquet", "torch"]
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    packages |= {name for name in TOP if not name.startswith("_")}
    own = "print(sum(m.split('.')[0] == 'skdp' for m in sys.modules)); "
    code = (
        f"from sklearn.pipeline import Pipeline; del Pipeline._fit; import skdp, sys; {own}"
        f"first = dir(skdp); from skdp import BudgetAccountant; {own}"
        "from skdp import *; print(*first, *dir(skdp)); "
        "import skdp.data, skdp.linear_model, skdp.inspection, skdp.model_selection; "
        f"print(*set({heavy}) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    alone, of_ledgers, names, loaded = done.stdout.splitlines()
    assert int(alone) == 1 and int(of_ledgers) <= 21
    assert names.split() == 2 * sorted({*skdp.__all__, *packages}) and loaded == ""
    assert skdp.DPRidge is skdp.linear_model.DPRidge
    assert not hasattr(skdp, "DPForest") and not hasattr(skdp, "_forest")
    assert sorted(static_names(ROOT / "__init__.py")) == sorted(skdp._PACKAGE_OF.items())


def static_names(path):
    """Names that type checkers find in the package, and where."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("skdp."):
            for alias in node.names:
                yield alias.asname, node.module.removeprefix("skdp.")


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["skdp", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def imported(path, modules):
    """Modules of the package that a file imports, functions included, type checking excluded."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def test_no_module_imports_itself_in_a_circle():
    """Imports inside functions count: they hide a circle, they do not open it."""
    modules = {module_of(path): path for path in FILES}
    graph = {name: set(imported(path, modules)) & set(modules) for name, path in modules.items()}
    while graph:
        leaves = {name for name, targets in graph.items() if not targets & set(graph)}
        assert leaves, f"a circle among {sorted(graph)}"
        graph = {name: targets for name, targets in graph.items() if name not in leaves}


def test_the_core_imports_no_methods_of_papers():
    """Nor tuners and models of groups, which use it."""
    users = ("output", "worst_group", "tuning", "skdp.methods")
    wrong = [
        f"{path} imports {module}"
        for path in (ROOT / "algorithms" / "core").glob("*.py")
        for module, _ in imports(path)
        if module.removeprefix("skdp.algorithms.").split(".")[0] in users
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_stand_at_the_top():
    wrong = []
    for path in FILES:
        for function in ast.walk(parsed(path)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    if isinstance(node, (ast.Import, ast.ImportFrom)):
                        names = [getattr(node, "module", None), *(each.name for each in node.names)]
                        if any(str(name).startswith("skdp") for name in names):
                            wrong.append(f"{path}: {function.name} imports {names}")
    assert not wrong, "\n".join(wrong)


def test_no_public_name_hides_a_module():
    """``import skdp.x.y as m`` is a module: no function of a package bears a module's name."""
    for name in map(module_of, FILES):
        package, _, last = name.rpartition(".")
        if package:
            module = importlib.import_module(name)
            assert getattr(importlib.import_module(package), last) is module, name
