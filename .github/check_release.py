"""Check that a tag, the version of the package, the citation and the changelog agree.

``python .github/check_release.py`` compares the version of the package with the citation;
``python .github/check_release.py v1.2.3`` also with a tag and with the newest section of the
changelog; ``--notes`` then prints that section.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.compile(r'^__version__ = "(.+)"$', re.M)
CITED = re.compile(r'^version: "?([^"\n]+)"?$', re.M)
HEADING = re.compile(r"^## (\S+) - (.+)$", re.M)


def read(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def package_version(root: Path) -> str:
    """Return ``__version__`` without importing the package."""
    found = VERSION.search(read(root / "skdp" / "__init__.py"))
    return found[1] if found else "none"


def sections(changelog: str) -> list[tuple[str, str, str]]:
    """Return version, date and text of each section, newest first."""
    parts = HEADING.split(changelog)[1:]
    return [
        (version, date, text.strip())
        for version, date, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def problems(root: Path, tag: str | None = None) -> list[str]:
    """Return a sentence for each disagreement; an empty list lets a release go on."""
    version = package_version(root)
    found = []
    cited = CITED.search(read(root / "CITATION.cff"))
    if not cited or cited[1] != version:
        found.append(f"CITATION.cff has version {cited and cited[1]}, the package {version}.")
    recipe = root / "recipe" / "meta.yaml"
    if recipe.exists() and f'version = "{version}"' not in read(recipe):
        found.append(f"recipe/meta.yaml has another version than the package, {version}.")
    if tag is None:
        return found
    if "/OWNER/" in read(root / "pyproject.toml"):
        found.append("pyproject.toml has OWNER in place of the owner of the repository.")
    if tag != f"v{version}":
        found.append(f"The tag is {tag!r}, the package needs 'v{version}'.")
    newest, date, _ = next(iter(sections(read(root / "CHANGELOG.md"))), ("none", "", ""))
    if newest != version:
        found.append(f"The newest section of CHANGELOG.md is {newest}, the package {version}.")
    elif not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
        found.append(f"The section {newest} of CHANGELOG.md has no date: {date!r}.")
    waiting = sorted(
        path.name for path in (root / "changelog.d").glob("*") if path.name != "README.md"
    )
    if waiting:
        found.append(f"Fragments are not in CHANGELOG.md yet: {', '.join(waiting)}.")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the disagreements, or the notes of the release; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tag", nargs="?", help="tag of the release, such as v1.2.3")
    parser.add_argument("--notes", action="store_true", help="print the section of the release")
    options = parser.parse_args(arguments)
    found = problems(ROOT, options.tag)
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    if options.notes and not found:
        print(sections(read(ROOT / "CHANGELOG.md"))[0][2])
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
