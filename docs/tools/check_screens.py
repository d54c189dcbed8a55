"""Looks at a built site in Chromium: ``python docs/tools/check_screens.py docs/_build``.

No page is wider than its screen, no request fails, and every formula is set. Needs playwright and
a Chromium of the system; ``--shots FOLDER`` keeps pictures.
"""

import argparse
import functools
import http.server
import shutil
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

MEASURE = """() => ({
    width: Math.max(document.documentElement.scrollWidth, ...[
        ...document.querySelectorAll(".bd-article-container")
    ].map(part => part.scrollWidth)),
    errors: document.querySelectorAll(".katex-error").length,
    unset: [...document.querySelectorAll(".math")].filter(m => !m.querySelector(".katex")).length,
    blank: [...document.images].filter(i => i.complete && !i.naturalWidth).length,
})"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


def main() -> int:
    """Look at each page at each width."""
    parser = argparse.ArgumentParser()
    parser.add_argument("site", type=Path)
    parser.add_argument("--widths", default="390,1280")
    parser.add_argument("--pages", default="**/*.html", help="a pattern")
    parser.add_argument("--shots", type=Path)
    options = parser.parse_args()
    pages = sorted(
        path.relative_to(options.site).as_posix()
        for path in options.site.glob(options.pages)
        if "_static" not in path.parts and "_downloads" not in path.parts
    )
    handler = functools.partial(Quiet, directory=str(options.site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browsers = filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser")))
    findings = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=next(browsers), args=["--no-sandbox", "--disable-gpu"]
        )
        for width in map(int, options.widths.split(",")):
            tab = browser.new_page(viewport={"width": width, "height": 900})
            failed: list[str] = []
            tab.on("requestfailed", lambda request, failed=failed: failed.append(request.url))
            tab.on("pageerror", lambda error, failed=failed: failed.append(str(error)))
            for page in pages:
                tab.goto(f"http://127.0.0.1:{server.server_port}/{page}", wait_until="load")
                found = tab.evaluate(MEASURE)
                wrong = {kind: n for kind, n in found.items() if kind != "width" and n}
                if found["width"] > width:
                    wrong["width"] = found["width"]
                if failed:
                    wrong["failed"] = failed[:]
                    failed.clear()
                if wrong:
                    findings.append(f"{page} at {width}: {wrong}")
                if options.shots:
                    options.shots.mkdir(parents=True, exist_ok=True)
                    name = f"{page.replace('/', '_').removesuffix('.html')}_{width}.png"
                    tab.screenshot(path=str(options.shots / name), full_page=True)
        browser.close()
    print(*findings, f"{len(pages)} pages, {len(findings)} findings", sep="\n")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
