"""Names of the package in code font are links: ``DPRidge``, ``skdp.DPRidge``, ``plan_fit(...)``."""

import re
from functools import cache
from typing import Any

from docutils import nodes
from public_names import public_names
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata

NAME = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?P<call>\(.*\))?", re.S)

#: Where a link is not wanted.
OUTSIDE = (nodes.title, nodes.reference, pending_xref)


@cache
def targets() -> dict[str, str]:
    """Paths of pages by every way to write a name; ambiguous names are left out."""
    found: dict[str, set[str]] = {}
    for name in public_names():
        for written in (name.name, name.path, *name.others):
            found.setdefault(written, set()).add(name.path)
    return {written: paths.pop() for written, paths in found.items() if len(paths) == 1}


class LinkNames(SphinxTransform):
    """Put references around literals that are public names."""

    default_priority = 400

    def apply(self, **_kwargs: Any) -> None:
        """Leave titles and links as they are, and words that are no names by their form."""
        for literal in list(self.document.findall(nodes.literal)):
            match = NAME.fullmatch(literal.astext())
            target = match and targets().get(match["name"])
            if not target or isinstance(literal.parent, OUTSIDE):
                continue
            if match["name"].islower() and not (match["call"] or re.search("[_.]", match["name"])):
                continue
            link = pending_xref(
                "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=True
            )
            literal.replace_self(link)
            link += literal


def setup(app: Sphinx) -> ExtensionMetadata:
    """Link the names of each page when it is read."""
    app.add_transform(LinkNames)
    return {"version": "1", "parallel_read_safe": True}
