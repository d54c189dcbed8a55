"""docs/develop/coverage.md: it names what there is. That all of it runs: contract/test_fits.py."""

import re
from pathlib import Path

import pytest

import skdp
from skdp.algorithms import (
    adversarial_output_perturbation,
    exponential_mechanism,
    localized_exponential,
)
from skdp.methods.choice import GROUP_METHODS, METHODS
from skdp.methods.tuning import INNER
from skdp.privacy.events import RECORD_RELATIONS, REPLACED_RELATIONS, Neighbouring

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "develop" / "coverage.md").read_text(encoding="utf-8")


def test_names_and_paths_of_the_page_exist():
    for name in set(re.findall(r"`(DP[A-Za-z]+)", PAGE)):
        assert hasattr(skdp, name), name
    for name in (*INNER, "extragradient", "best_response", "lsvre"):
        assert f'"{name}"' in PAGE, name
    for function in (exponential_mechanism, localized_exponential, adversarial_output_perturbation):
        assert function.__name__ in PAGE
    for path in set(re.findall(r"`((?:tests|skdp)/\S+)`", PAGE)):
        assert (ROOT / path).exists(), path


#: "Algorithm 2", "Algorithms 9, 10 and 11", "Alg. 3 to 5".
ALGORITHMS = re.compile(r"Alg(?:orithms?|\.) (\d+(?:(?:,| and| or| to)? \d+)*)")


def numbers(text):
    """All algorithms that a text names."""
    for match in ALGORITHMS.finditer(text):
        found = [int(number) for number in re.findall(r"\d+", match[1])]
        yield from range(found[0], found[-1] + 1) if " to " in match[1] else found


def rows():
    """Paper, first and last cell of each row of the page's tables."""
    paper = "Lowy"  # the tables come first
    for line in PAGE.splitlines():
        if line.startswith("## "):
            (paper,) = re.findall("Lowy|Zhang|Kornowski|González", line) or [paper]
        elif line.startswith("| ") and not line.startswith(("| row |", "| result |")):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 3, line
            yield paper, cells[0], cells[2]


PUBLISHED = {(paper, number): module for paper, row, module in rows() for number in numbers(row)}


def test_every_row_names_a_module():
    for _, row, module in rows():
        assert re.fullmatch(r"`skdp/\S+`", module), row


def test_every_published_algorithm_has_one_row():
    listed = [(paper, number) for paper, row, _ in rows() for number in numbers(row)]
    assert len(listed) == len(set(listed))
    papers = {"Lowy": 11, "Zhang": 5, "Kornowski": 4, "González": 5}
    assert set(listed) == {(paper, i + 1) for paper, n in papers.items() for i in range(n)}


@pytest.mark.parametrize(("algorithm", "module"), PUBLISHED.items(), ids=str)
def test_the_module_names_the_algorithm(algorithm, module):
    """In its docstrings or reference strings, next to the authors."""
    paper, number = algorithm
    text = " ".join((ROOT / module.strip("`")).read_text(encoding="utf-8").split())
    near = (
        text[max(match.start() - 120, 0) : match.end() + 120]
        for match in ALGORITHMS.finditer(text)
        if number in numbers(match[0])
    )
    assert any(paper in part for part in near)


def covered(method):
    """What a row of the page of methods begins with, from the attributes of the object."""
    relations = set(method.relations)
    kinds = {
        frozenset(Neighbouring): "all",
        frozenset(REPLACED_RELATIONS): "R",
        frozenset(RECORD_RELATIONS): "rows",
        frozenset({Neighbouring.REPLACE_ONE}): "rows, replace-one,",
    }
    kind = kinds[frozenset(relations)]
    assert method.is_weighted is not kind.startswith("rows")
    conditions = "; `delta > 0`" * method.needs_delta + "; `delta=0`" * method.is_pure
    return kind + " in memory" * (not method.chunked) + conditions


def test_the_page_of_methods_is_that_of_the_objects():
    """Each object of linear models and of groups has a row with its name and what it covers."""
    text = (ROOT / "docs" / "guide" / "methods.md").read_text(encoding="utf-8")
    rows = re.findall(r'^\| `(\w+)` \| "(\w+)" \| [^|]* \| ([^|]*) \|$', text, flags=re.M)
    found = [*METHODS.items(), *GROUP_METHODS.items()]
    tables = {type(method).__name__: (name, method) for name, method in found}
    assert sorted(name for name, _, _ in rows) == sorted(tables)
    for kind, name, covers in rows:
        assert name == tables[kind][0], kind
        assert covers.startswith(covered(tables[kind][1])), kind
