"""Formulas by the copy of KaTeX in ``_static/katex``: no page needs a network."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def _inline(translator: nodes.NodeVisitor, node: nodes.math) -> None:
    tex = translator.encode(node.astext())
    translator.body.append(f'<span class="math notranslate nohighlight">{tex}</span>')
    raise nodes.SkipNode


def _display(translator: nodes.NodeVisitor, node: nodes.math_block) -> None:
    tex = translator.encode(node.astext())
    translator.body.append(f'<div class="math display notranslate nohighlight">{tex}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Make "katex" the renderer of formulas in HTML."""
    app.add_html_math_renderer("katex", (_inline, None), (_display, None))
    app.add_css_file("katex/katex.min.css")
    app.add_js_file("katex/katex.min.js", loading_method="defer")
    app.add_js_file("katex/render.js", loading_method="defer")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
