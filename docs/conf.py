"""Configuration of Sphinx: ``sphinx-build -W docs docs/_build``, with the extra ``docs``.

``SKDP_DOCS_VERSION`` ("dev" or "0.1") and ``SKDP_DOCS_URL`` are for the published site: links to
scikit-learn's pages and a list of versions, which both need a network (``pages.yml``).
"""

import os
import sys
from importlib.metadata import metadata
from pathlib import Path

import skdp

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "skdp"
author = "The skdp developers"
copyright = "2026, The skdp developers"
release = version = skdp.__version__
#: Addresses of the project, from ``[project.urls]`` of pyproject.toml, where they are once known.
urls = dict(url.split(", ", 1) for url in metadata("skdp").get_all("Project-URL") or ())
project_repository = urls.get("Source", "").rstrip("/")
if "/OWNER/" in project_repository:  # not known yet
    project_repository = ""
site_url = os.environ.get("SKDP_DOCS_URL", "")
published = os.environ.get("SKDP_DOCS_VERSION", "")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "autolink",
    "offline_math",
    "project_files",
    "reference",
    "tidy_blocks",
]
exclude_patterns = ["_build", "_static/katex/*.md", "tools"]
toc_object_entries = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_typehints = "none"
autosummary_generate = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_\w+\.py$",
    "ignore_pattern": r"(^|/)(?!plot_)\w+\.py$",
    "within_subsection_order": "gallery.position",
    "doc_module": ("skdp",),
    "backreferences_dir": "auto_examples/backreferences",
    "abort_on_example_error": True,
    "inspect_global_variables": False,
    "min_reported_time": 1,
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
    "image_scrapers": ("matplotlib",),
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["skdp.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 8,
    "collapse_navigation": True,
    "navigation_depth": 2,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "navbar_align": "left",
    "logo": {
        "text": "skdp",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
}
if project_repository.startswith("https://github.com/"):
    owner, repository = project_repository.removeprefix("https://github.com/").split("/")
    html_context = {
        "github_user": owner,
        "github_repo": repository,
        "github_version": "main",
        "doc_path": "docs",
    }
    html_theme_options |= {"github_url": project_repository, "use_edit_page_button": True}
if published:
    html_baseurl = f"{site_url}{published}/"
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }
    html_theme_options |= {
        "switcher": {"json_url": f"{site_url}switcher.json", "version_match": published},
        "navbar_start": ["navbar-logo", "version-switcher"],
        "check_switcher": False,
    }
    if published == "dev":
        html_theme_options["announcement"] = "Pages of the coming version."
