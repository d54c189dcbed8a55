"""References in source, tests and pages lead to something that readers have."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
THEORY = ROOT / "docs" / "theory"
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for folder in ("skdp", "tests", "docs", "benchmarks", "examples")
    for pattern in ("*.py", "*.md")
    for path in sorted((ROOT / folder).rglob(pattern))
    if path != Path(__file__)
}
#: Names of documents, and of items in them, that are not in the repository.
PRIVATE = re.compile(r"specification|reviews? [A-Z]-?\d|spec_\w+\.md|\bE\d{1,2}\b|\b[YZ]-\d", re.I)
PAGE = r"docs/theory/(\w+)\.md"


def found(pattern):
    """Each match of a pattern, on lines that may be broken anywhere, and its file."""
    for path, text in TEXTS.items():
        joined = re.sub(r"\s*\n\s*(#:? )?", " ", text)
        for match in re.finditer(pattern, joined):
            yield path.relative_to(ROOT), match


@cache
def page(name):
    return (THEORY / f"{name}.md").read_text(encoding="utf-8")


def test_no_mention_of_documents_that_readers_do_not_have():
    named = [f"{path}: {text[0]}" for path, text in found(PRIVATE)]
    assert not named, "\n".join(named)


def test_errata_that_are_named_are_listed():
    tag = r"[LZKG]\d+"
    listed = set(re.findall(rf"^\| ({tag}) ", page("errata"), re.M))
    mentions = list(found(rf"[Ee]rrat(?:um|a) ({tag}(?:(?:, | and | to ){tag})*)"))
    missing = [
        f"{path}: {name}"
        for path, match in mentions
        for name in re.findall(tag, match[1])
        if name not in listed
    ]
    assert len(mentions) > 30 and not missing, "\n".join(missing)


def test_pages_sections_and_lemmas_that_are_named_exist():
    missing = []
    for path, match in found(PAGE):
        if not (THEORY / f"{match[1]}.md").exists():
            missing.append(f"{path}: {match[0]}")
    for path, match in found(PAGE + r", ['\"]([^'\"]+)['\"]"):
        heading = rf"^(#+ (\d+\. )?|\* \*\*){re.escape(match[2])}"
        if not re.search(heading, page(match[1]), re.M | re.I):
            missing.append(f"{path}: {match[0]}")
    for path, match in found(PAGE + r", (Lemma \w+|Theorem \w+)"):
        if f"**{match[2]}" not in page(match[1]) and f"{match[2]}\n" not in page(match[1]):
            missing.append(f"{path}: {match[0]}")
    for path, match in found(PAGE + r", section (\d+)"):
        if f"\n## {match[2]}. " not in page(match[1]):
            missing.append(f"{path}: {match[0]}")
    assert not missing, "\n".join(missing)


def test_files_that_pages_name_exist():
    named = {
        (path.relative_to(ROOT).as_posix(), match)
        for path, text in TEXTS.items()
        if path.suffix == ".md"
        for match in re.findall(r"`((?:tests|examples|docs|benchmarks)/[\w/.]+)`", text)
    }
    assert len(named) > 60
    missing = {(page, name) for page, name in named if not (ROOT / name).exists()}
    if not (ROOT / "benchmarks" / "results").exists():  # a source distribution
        missing = {entry for entry in missing if not entry[1].startswith("benchmarks/results")}
    assert not missing
