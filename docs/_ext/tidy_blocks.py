"""Code blocks without the empty line at their end that the tests of pages need."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata


class TidyBlocks(SphinxTransform):
    """Take white space off the ends of code blocks."""

    default_priority = 400

    def apply(self, **_kwargs: Any) -> None:
        """Replace the text of each block; highlighting comes later."""
        for block in self.document.findall(nodes.literal_block):
            block.rawsource = block.rawsource.rstrip()
            block.children = [nodes.Text(block.astext().rstrip())]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Tidy the blocks of each page when it is read."""
    app.add_transform(TidyBlocks)
    return {"version": "1", "parallel_read_safe": True}
