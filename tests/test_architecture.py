"""The walls of the house: floors, private imports, public exports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skdp

ROOT = Path(skdp.__file__).parent
#: A floor imports only floors below it.
FLOORS = {
    "privacy": 0,
    "mechanisms": 1,
    "problems": 2,
    "solvers": 3,
    "algorithms": 4,
    "linear_model": 5,
    "preprocessing": 5,
    "robust": 5,
    "model_selection": 5,
}
#: Modules below all floors: they import nothing of the package.
BELOW = {"_checks", "_records"}
#: Stricter than the order: who must not know whom (wall 1).
FORBIDDEN = {("mechanisms", "problems"), ("solvers", "mechanisms"), ("problems", "mechanisms")}
#: The relation between neighbours and nothing else of the privacy floor enters a problem.
RUNTIME = {"numpy", "scipy", "sklearn", "skdp"} | set(sys.stdlib_module_names)
OPTIONAL = {"dp_accounting"}


def imports(path):
    """Absolute module names that a file imports, with the names taken from each."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, ()
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module, tuple(alias.name for alias in node.names)


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_floors(path):
    package = path.relative_to(ROOT).parts[0]
    for module, _ in imports(path):
        if not module.startswith("skdp.") or package not in FLOORS:
            continue
        other = module.split(".")[1]
        if other in BELOW:
            continue
        assert FLOORS[other] <= FLOORS[package], f"{path} imports {module}"
        assert (package, other) not in FORBIDDEN


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_dependencies_are_declared_and_public(path):
    for module, names in imports(path):
        top = module.split(".")[0]
        assert top in RUNTIME | OPTIONAL, f"{path} imports {module}"
        if top in ("sklearn", "scipy", "numpy"):
            parts = [*module.split("."), *names]
            assert not any(part.startswith("_") for part in parts), f"{path}: private {module}"


def test_every_package_is_on_a_floor():
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(FLOORS)
    modules = {path.stem for path in ROOT.glob("*.py")}
    assert modules == BELOW | {"__init__"}
    for name in BELOW:
        assert not any(module.startswith("skdp") for module, _ in imports(ROOT / f"{name}.py"))


def test_public_names_exist():
    for path in ROOT.rglob("__init__.py"):
        name = ".".join(["skdp", *path.parent.relative_to(ROOT).parts])
        module = __import__(name, fromlist=["__all__"])
        assert all(hasattr(module, public) for public in module.__all__)


def test_optional_packages_are_not_imported():
    """Importing skdp loads neither dp-accounting nor a plotting or frame library."""
    heavy = ["dp_accounting", "matplotlib", "polars", "torch"]  # scikit-learn itself loads pandas
    code = f"import skdp, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
