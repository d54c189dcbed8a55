"""Pages that are files of the project: ``{include} ../CHANGELOG.md``, with links that lead on."""

import re
from pathlib import Path
from posixpath import dirname, relpath

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

#: Page of each file that is one.
PAGES = {
    "CHANGELOG.md": "changes",
    "CONTRIBUTING.md": "develop/contributing",
    "SECURITY.md": "develop/security_policy",
}
LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def _follow(app: Sphinx, path: Path, _parent: str, content: list[str]) -> None:
    """Turn links from the root of the project into links from the page that includes the file.

    A link to a file that is no page leads to the repository, or is text where that is not known.
    """
    folder = dirname(PAGES[path.name]) or "."
    repository = app.config.project_repository

    def follow(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        if target in PAGES:
            target = f"docs/{PAGES[target]}.md"
        if target.startswith("docs/") and target.endswith(".md"):
            return f"[{text}]({relpath(target.removeprefix('docs/'), folder)}{anchor})"
        return f"[{text}]({repository}/blob/main/{target}{anchor})" if repository else text

    content[0] = LINK.sub(follow, content[0])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the value ``project_repository``: the address of the repository, or nothing."""
    app.add_config_value("project_repository", "", "env", str)
    app.connect("include-read", _follow)
    return {"version": "1", "parallel_read_safe": True}
