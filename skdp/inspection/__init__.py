"""What privacy costs: before a fit, from public numbers, and after it, as a picture.

:func:`plan_fit` predicts the noise of a fit from the sizes of the data alone.
:func:`check_pipeline` finds parts of a pipeline that learn without privacy, and, for the data
holder, declarations that do not fit the records.
:class:`PartialEffectDisplay` draws the curves of a private model of a table, which costs nothing.
:class:`PrivacyUtilityDisplay` draws a score against epsilon; it looks at records without privacy.
"""

from skdp.inspection.fit_plan import FitPlan, PlannedRelease, plan_fit
from skdp.inspection.partial_effect import PartialEffect, PartialEffectDisplay, feature_importance
from skdp.inspection.pipeline_check import Finding, PipelineCheck, check_pipeline
from skdp.inspection.privacy_utility import PrivacyUtilityDisplay

__all__ = [
    "Finding",
    "FitPlan",
    "PartialEffect",
    "PartialEffectDisplay",
    "PipelineCheck",
    "PlannedRelease",
    "PrivacyUtilityDisplay",
    "check_pipeline",
    "feature_importance",
    "plan_fit",
]
