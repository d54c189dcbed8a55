"""Checks a built site: ``python docs/tools/check_site.py docs/_build``.

Public names have pages, links and anchors resolve, and nothing is loaded from elsewhere.
"""

import html
import posixpath
import re
import sys
from pathlib import Path

from sphinx.util.inventory import InventoryFile

sys.path.insert(0, str(Path(__file__).parents[1] / "_ext"))
from public_names import public_names

ASSET = re.compile(r'(?:<script[^>]+src|<link[^>]+href|<img[^>]+src)="([^"]+)"')
OUTSIDE = re.compile(r"(?:https?:)?//|mailto:|javascript:")


def check(site: Path) -> dict[str, list[str]]:
    """What is wrong, by kind."""
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    known = {name for kind, names in inventory.data.items() if kind[:3] == "py:" for name in names}
    pages = {
        path.relative_to(site).as_posix(): path.read_text(encoding="utf-8")
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    broken, elsewhere = [], []
    for page, text in pages.items():
        elsewhere += [f"{page}: {asset}" for asset in ASSET.findall(text) if OUTSIDE.match(asset)]
        for link in map(html.unescape, re.findall(r'href="([^"]+)"', text)):
            if OUTSIDE.match(link):
                continue
            path, _, anchor = link.partition("#")
            path = path.partition("?")[0]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
            target = target if path else page
            missing = anchor and anchor not in anchors[target] if target in anchors else False
            if missing or not (site / target).exists():
                broken.append(f"{page}: {link}")
    return {
        "names without a page": [n.path for n in public_names() if n.path not in known],
        "broken links": broken,
        "assets from elsewhere": elsewhere,
    }


if __name__ == "__main__":
    findings = check(Path(sys.argv[1]))
    for kind, found in findings.items():
        print(f"{kind}: {len(found)}", *found[:20], sep="\n  ")
    print(f"{len(public_names())} public names")
    sys.exit(any(findings.values()))
