"""A release needs one version in tag, package, citation and changelog."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".github" / "check_release.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="a source distribution has no .github")


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_release", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path):
    """A project whose version 1.2.0 can be released."""
    files = {
        "skdp/__init__.py": '__version__ = "1.2.0"\n',
        "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.0\n",
        "CHANGELOG.md": "## 1.2.0 - 2030-01-31\n\n- New.\n\n## 1.1.0 - 2029-01-31\n\n- Old.\n",
        "changelog.d/README.md": "",
        "pyproject.toml": 'Source = "https://github.com/somebody/skdp"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_this_project_agrees(check):
    assert check.problems(ROOT) == []
    newest, date, text = check.sections((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))[0]
    assert newest[0].isdigit() and date and text.count("\n") > 5


def test_a_release_goes_on(check, project, monkeypatch, capsys):
    monkeypatch.setattr(check, "ROOT", project)
    assert check.main(["v1.2.0", "--notes"]) == 0
    assert capsys.readouterr() == ("- New.\n", "")


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("skdp/__init__.py", "1.2.0", "1.2.1", "the package needs 'v1.2.1'"),
        ("CITATION.cff", "version: 1.2.0\nversion: 1.2.0", "version: 1.2.0", "CITATION.cff"),
        ("CITATION.cff", "\nversion: 1.2.0", "\nversion: 1.1.0", "CITATION.cff has version 1.1.0"),
        ("CHANGELOG.md", "1.2.0", "1.3.0", "newest section of CHANGELOG.md is 1.3.0"),
        ("CHANGELOG.md", "## ", "### ", "newest section of CHANGELOG.md is none"),
        ("CHANGELOG.md", "2030-01-31", "unreleased", "has no date: 'unreleased'"),
        ("changelog.d/README.md", "", "", "not in CHANGELOG.md yet: 7.fixed.md"),
        ("pyproject.toml", "somebody", "OWNER", "OWNER in place of the owner"),
    ],
)
def test_a_release_stops(check, project, name, old, new, message, monkeypatch, capsys):
    path = project / name
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    if "7.fixed.md" in message:
        (project / "changelog.d" / "7.fixed.md").touch()
    monkeypatch.setattr(check, "ROOT", project)
    assert check.main(["v1.2.0", "--notes"]) == 1
    out, err = capsys.readouterr()
    assert out == "" and message in err


def test_another_tag_stops(check, project):
    assert check.problems(project, "1.2.0") == ["The tag is '1.2.0', the package needs 'v1.2.0'."]
    assert check.problems(project) == []
