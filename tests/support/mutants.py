"""Defects that the tests of the privacy contract must find, planted one at a time.

``python tests/support/mutants.py`` plants each in a copy of the package, runs the tests that must
fail, and prints which failed. A mutant that survives, or whose text is not found, is an error.

They are listed in ``mutants.txt``: below ``==`` and the path of a file, blocks of a name, lines
with ``-`` that are replaced by those with ``+``, and the arguments of pytest after ``$``.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["MUTANTS", "Mutant", "is_killed", "plant"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mutant:
    """A defect."""

    name: str
    path: str  # of the file, below ``skdp``
    old: str  # what is replaced (its first occurrence)
    new: str
    tests: str  # arguments of pytest: tests of which one at least must fail


def read_mutants(text: str) -> tuple[Mutant, ...]:
    """Read the blocks of ``mutants.txt``."""
    mutants, path = [], ""
    for name, *lines in map(str.splitlines, text.strip().split("\n\n")):
        if name.startswith("== "):
            path, (name, *lines) = name[3:], lines
        old, new, tests = (
            "\n".join(line[2:] for line in lines if line.startswith(sign)) for sign in "-+$"
        )
        mutants.append(Mutant(name, path, old, new, tests))
    return tuple(mutants)


MUTANTS = read_mutants(Path(__file__).with_suffix(".txt").read_text())


def plant(mutant: Mutant, package: Path) -> None:
    """Plant a mutant in a copy of the package."""
    path = package / mutant.path
    text = path.read_text()
    if mutant.old not in text:
        raise ValueError(f"{mutant.name}: the text to replace is not in {mutant.path}.")
    path.write_text(text.replace(mutant.old, mutant.new, 1))


@cache
def passes(tests: str) -> bool:
    """Whether tests pass on the package as it is."""
    return _pytest(tests, None)[0] == 0


def is_killed(mutant: Mutant) -> tuple[bool, str]:
    """Whether a test fails with the mutant and without it none, and the end of pytest's output."""
    code, output = _pytest(mutant.tests, mutant)
    # 1: a test failed; anything else is no verdict of a test
    return code == 1 and passes(mutant.tests), output


def _pytest(tests: str, mutant: Mutant | None) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "skdp"
        shutil.copytree(ROOT / "skdp", package)
        if mutant is not None:
            plant(mutant, package)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider"]
        command += ["--tb=line", f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={ROOT}"]
        # all kinds of tests, also those that a plain run leaves out
        command += ["-m", "", *(_absolute(word) for word in shlex.split(tests))]
        paths = os.pathsep.join([folder, str(ROOT / "tests" / "support")])
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTEST_ADDOPTS", None)
        # in the folder of the copy: Python imports from where it runs, before PYTHONPATH
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    return done.returncode, done.stdout[-600:]


def _absolute(word: str) -> str:
    return str(ROOT / word) if word.startswith("tests/") else word


def main() -> int:
    survivors = 0
    for mutant in MUTANTS:
        if sys.argv[1:] and not any(word in mutant.name for word in sys.argv[1:]):
            continue
        killed, output = is_killed(mutant)
        survivors += not killed
        print(f"{'killed' if killed else 'SURVIVED':9s} {mutant.name}", flush=True)
        if not killed or os.environ.get("MUTANTS_VERBOSE"):
            print(output, flush=True)
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
