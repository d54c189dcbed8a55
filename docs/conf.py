"""Configuration of Sphinx: ``sphinx-build -W docs docs/_build``, with the extra ``docs``."""

import skdp

project = "skdp"
author = "The skdp developers"
copyright = "2026, The skdp developers"
release = version = skdp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px"}
toc_object_entries = False
