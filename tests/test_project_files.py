"""Files around the package: YAML that parses, names of fragments, packages that are described."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
YAML = sorted(
    path
    for pattern in ("*.yml", "*.yaml", "*.cff", ".*.yml", ".*.yaml", ".github/**/*.yml")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_parses(path):
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with Dask")
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_fragments_have_a_category():
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    categories = re.findall(r'\[\[tool.towncrier.type\]\]\ndirectory = "(\w+)"', pyproject)
    readme = (ROOT / "changelog.d" / "README.md").read_text(encoding="utf-8")
    assert categories == re.findall(r"^\| `(\w+)` \|", readme, re.M)
    name = rf"(\d+|\+[\w-]+)\.({'|'.join(categories)})(\.\d+)?\.md"
    for path in (ROOT / "changelog.d").iterdir():
        assert path.name == "README.md" or re.fullmatch(name, path.name), path.name


def test_contributing_describes_every_package():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    layers = page.partition("\n## Layers\n")[2].partition("\n## ")[0]
    skdp = ROOT / "skdp"
    packages = [path.parent for path in skdp.rglob("__init__.py") if path.parent != skdp]
    names = {path.relative_to(skdp).as_posix().removeprefix("algorithms/") for path in packages}
    names |= {path.name for path in skdp.glob("_*.py")} - {"__init__.py"}
    assert {name for name in names if f"`{name}`" not in layers} == set()


def test_vendored_files_are_those_of_their_list():
    folder = ROOT / "docs" / "_static" / "katex"
    if not folder.exists():
        pytest.skip("the source distribution has no fonts of the site")
    page = (folder / "VENDORED.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\S+\.(?:js|css|woff2))` \| `(\w{64})` \|$", page, re.M))
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    assert found == {*listed, "VENDORED.md", "render.js"}
    for name, digest in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def test_published_pages_stand_beside_each_other(tmp_path):
    html, site = tmp_path / "html", tmp_path / "site"
    html.mkdir()
    site.mkdir()
    for version in ("dev", "0.9", "0.10"):
        (html / "index.html").write_text(version)
        script = ROOT / "docs" / "tools" / "publish.py"
        arguments = [sys.executable, script, html, site, version, "https://x.org/"]
        subprocess.run(arguments, check=True)
    assert {path.parent.name: path.read_text() for path in site.glob("*/index.html")} == {
        "dev": "dev", "0.9": "0.9", "0.10": "0.10", "stable": "0.10",
    }  # fmt: skip
    listed = json.loads((site / "switcher.json").read_text())
    assert [entry["version"] for entry in listed] == ["dev", "0.10", "0.9"]
    assert listed[1]["url"] == "https://x.org/0.10/" and listed[1]["preferred"]
    assert "stable/" in (site / "index.html").read_text()


def test_the_recipe_needs_what_the_package_needs():
    """recipe/meta.yaml lists the dependencies of pyproject.toml and every package."""
    path = ROOT / "recipe" / "meta.yaml"
    if not path.exists():
        pytest.skip("a source distribution has no recipe")
    recipe = path.read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    needed = re.findall(r'"(.+)"', re.search(r"\ndependencies = \[\n(.*?)\]", project, re.S)[1])
    assert len(needed) >= 5 and all(f"- {name.replace('>=', ' >=')}\n" in recipe for name in needed)
    packages = {path.parent.name for path in (ROOT / "skdp").glob("*/__init__.py")}
    assert {f"skdp.{name}" for name in packages} <= set(re.findall(r"- (skdp\.\w+)", recipe))


def test_one_sentence_says_what_the_package_is():
    sentence = "Differentially private estimators for scikit-learn: declare what is public, choose "
    for name in (
        "README.md",
        "docs/index.md",
        "skdp/__init__.py",
        "pyproject.toml",
        "CITATION.cff",
    ):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert sentence + "epsilon, fit" in text, name


@pytest.mark.parametrize("name", ["check_pages", "check_numbers"])
def test_pages_pass_their_checks(name):
    if name == "check_numbers" and not (ROOT / "benchmarks" / "results").exists():
        pytest.skip("the source distribution has no results of benchmarks")
    script = ROOT / "docs" / "tools" / f"{name}.py"
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "images").glob("*.svg")), ids=lambda path: path.stem
)
def test_letters_of_pictures_are_legible(path):
    """At least 9 points on a picture of 620 pixels, which is the width of the text."""
    text = path.read_text(encoding="utf-8")
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', text).group(1))
    sizes = re.findall(r'font(?:-size)?[:=] ?"?([\d.]+)', text)
    assert sizes and min(map(float, sizes)) * 620 / width * 0.75 >= 9


def test_every_page_is_in_a_table_of_contents():
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    pages = {page for page in pages if not page.startswith(("_", "tools/", "api/", "auto_"))}
    listed = {"index.md"}
    for index in docs.rglob("index.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text("utf-8"), re.S):
            folder = index.parent.relative_to(docs)
            listed |= {f"{(folder / name).as_posix()}.md" for name in re.findall(r"<(.+)>", tree)}
    assert pages - listed == set()
    assert {page for page in listed - pages if not page.startswith(("api/", "auto_"))} == set()
