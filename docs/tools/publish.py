"""Puts a built site beside other versions: ``python docs/tools/publish.py HTML SITE VERSION URL``.

VERSION is "dev" or, of a release, "0.1". The newest release is also "stable", where the root leads.
"""

import json
import shutil
import sys
from pathlib import Path


def publish(html: Path, site: Path, version: str, url: str) -> None:
    """Copy the pages, and write the list of versions that all pages read."""
    for name in (version, "stable") if version != "dev" else (version,):
        shutil.rmtree(site / name, ignore_errors=True)
        shutil.copytree(html, site / name)
    (site / ".nojekyll").touch()  # folders that begin with an underscore
    releases = [path.name for path in site.iterdir() if path.name.replace(".", "").isdigit()]
    releases.sort(key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    entries = [{"version": name, "url": f"{url}{name}/"} for name in ("dev", *releases)]
    if releases:
        entries[1] |= {"name": f"{releases[0]} (stable)", "preferred": True}
    (site / "switcher.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    home = "stable" if releases else "dev"
    (site / "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={home}/">\n')


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4])
