"""Writes ``api/``: a page for each module, and one for each public class and function."""

import enum
import inspect
import re
from pathlib import Path
from typing import Any

from public_names import GROUPS, MODULES, PublicName, has_page, listed, public_names
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

#: Pages of the user guide for what they describe.
GUIDES = {
    "DPLogisticRegression": "linear",
    "DPRidge": "linear",
    "DPLinearClassifier": "linear",
    "DPLinearRegressor": "linear",
    "DPTabularClassifier": "frames",
    "DPTabularRegressor": "frames",
    "TableEncoder": "frames",
    "describe_columns": "frames",
    "check_columns": "frames",
    "DPAdversarialClassifier": "special_models",
    "DPAdversarialRegressor": "special_models",
    "DPMaxGroupLossClassifier": "worst_group",
    "DPMaxGroupLossRegressor": "worst_group",
    "DPMaxGroupLossMLPClassifier": "special_models",
    "worst_group_loss": "worst_group",
    "worst_group_score": "worst_group",
    "DPRidgeCV": "tuning",
    "DPLogisticRegressionCV": "tuning",
    "DPSearchCV": "tuning",
    "dp_cross_validate": "budget",
    "DPSyntheticData": "synthetic",
    "BoundedScaler": "preprocessing",
    "BoundedSplineTransformer": "special_models",
    "DPStandardScaler": "preprocessing",
    "private_ranges": "preprocessing",
    "BudgetAccountant": "budget",
    "CoefficientIntervals": "noise_of_a_fit",
    "plan_fit": "plan",
    "PrivacyUtilityDisplay": "plan",
    "check_pipeline": "plan",
    "PartialEffectDisplay": "frames",
    "feature_importance": "frames",
    "audit_estimator": "security",
    "epsilon_lower_bound": "security",
    "RecordSource": "scale",
    "ParquetRecords": "scale",
    "DaskRecords": "scale",
}
#: Methods that scikit-learn adds to every estimator.
ROUTING = re.compile(r"set_\w+_request|get_metadata_routing|_.*")
THEORY = re.compile(r"`{0,2}docs/(\w+/\w+)\.md`{0,2}")


def heading(text: str, line: str = "=") -> str:
    """A heading in reStructuredText, its underscores escaped."""
    text = text.replace("_", r"\_")
    return f"{text}\n{line * len(text)}\n\n"


def methods(kind: type) -> tuple[list[str], list[str]]:
    """Public methods and properties of a class: its own, and those of scikit-learn."""
    own, inherited = [], []
    for name in dir(kind):
        origin = next((base for base in kind.__mro__ if name in vars(base)), object)
        member = inspect.getattr_static(kind, name)
        is_method = isinstance(member, (classmethod, staticmethod, property))
        if ROUTING.fullmatch(name) or not (is_method or inspect.isroutine(member)):
            continue
        if origin.__module__.startswith("skdp"):
            own.append(name)
        elif origin.__module__.startswith("sklearn"):
            inherited.append(name)
    return own, inherited


def object_page(name: PublicName) -> str:
    """The page of a class or a function."""
    text = heading(name.name)
    if not inspect.isclass(name.value):
        text += f".. autofunction:: {name.path}\n\n"
    else:
        kind = "autoexception" if issubclass(name.value, Exception) else "autoclass"
        text += f".. {kind}:: {name.path}\n"
        own, inherited = methods(name.value)
        if issubclass(name.value, enum.Enum):
            text += "   :members:\n   :undoc-members:\n"
        elif own and kind == "autoclass":
            text += f"   :members: {', '.join(own)}\n   :undoc-members:\n"
        text += "\n"
        if inherited:
            text += "From scikit-learn: " + ", ".join(f"``{n}``" for n in inherited) + ".\n\n"
    if name.others:
        text += "Also " + ", ".join(f"``{path}``" for path in name.others) + ".\n\n"
    if name.name in GUIDES:
        text += f"User guide: :doc:`/guide/{GUIDES[name.name]}`.\n\n"
    what = "class" if inspect.isclass(name.value) else "function"
    paths = " ".join((name.path, *name.others))
    return f"{text}.. minigallery:: {paths}\n   :add-heading: Examples with this {what}\n"


def module_page(module: str, names: list[PublicName]) -> str:
    """The page of a module: its docstring, and a table of what it lists."""
    text = heading(module) + f".. automodule:: {module}\n\n.. currentmodule:: None\n\n"
    shown = {name.path for name in names if name.module == module}
    elsewhere = [name for name in names if any(p.rpartition(".")[0] == module for p in name.others)]
    table = sorted(
        [*shown, *(name.path for name in elsewhere)], key=lambda path: path.rpartition(".")[2]
    )
    for what, is_shown in (("Classes", str.isupper), ("Functions", str.islower)):
        rows = [path for path in table if is_shown(path.rpartition(".")[2][0])]
        if rows:
            text += f".. rubric:: {what}\n\n.. autosummary::\n   :nosignatures:\n\n"
            text += "".join(f"   ~{path}\n" for path in rows) + "\n"
    constants = [name for name, value in listed(module) if not has_page(value)]
    if constants:
        text += "Constants and types: " + ", ".join(f"``{name}``" for name in constants) + ".\n\n"
    toctree = "".join(f"   {path}\n" for path in sorted(shown))
    return f"{text}.. toctree::\n   :hidden:\n\n{toctree}"


def index_page() -> str:
    """The index of modules, by their readers."""
    text = heading("API reference")
    text += (
        "What these modules list is public; everything else may change in any release, also what\n"
        ":doc:`extensions </develop/building_blocks>` use.\n\n"
    )
    for group, modules in GROUPS.items():
        text += heading(group, "-") + ".. autosummary::\n\n"
        text += "".join(f"   {module}\n" for module in modules) + "\n"
    toctree = "".join(f"   {module}\n" for module in MODULES)
    return f"{text}.. toctree::\n   :hidden:\n\n{toctree}"


def _write(app: Sphinx) -> None:
    """Write the pages that changed and remove others, so that a second build is quick."""
    names = list(public_names())
    pages = {"index": index_page()}
    pages |= {module: module_page(module, names) for module in MODULES}
    pages |= {name.path: object_page(name) for name in names}
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
    for page, text in pages.items():
        path = folder / f"{page}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _link(
    _app: Sphinx, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    """Turn paths of pages in docstrings into links."""
    lines[:] = [THEORY.sub(r":doc:`/\1`", line) for line in lines]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", _write)
    app.connect("autodoc-process-docstring", _link)
    return {"version": "1", "parallel_read_safe": True}
