"""Remarks of reports."""

from skdp.linear_model.remarks import noise_alarms, plan_remarks
from skdp.privacy import GaussianEvent, Neighbouring, PrivacyReport, Release

RELATION = Neighbouring.REPLACE_ONE


def test_remarks_of_a_report_are_public_arithmetic():
    """What a plan says about the result is printed; the numbers are those of the plan."""
    event = GaussianEvent(1.0, RELATION)
    release = Release("coefficients", "gaussian", 1.0, 3.0, 4, 100, "theorem", event)

    def text(**plan):
        remarks = (*plan_remarks(plan), *noise_alarms((release,), plan))
        return str(
            PrivacyReport(1.0, 1e-6, RELATION, "a method", (release,), plan=plan, remarks=remarks)
        )

    assert "mostly noise" in text(accuracy=0.1, radius=5.0)  # 3 sqrt(4) > 5
    assert "mostly noise" not in text(accuracy=0.1, radius=7.0)
    phased = text(block_sizes=[70, 30], noise_scales=[3.0, 0.5], radius=1.0)
    assert "70, 30 records with noise of scale 3, 0.5" in phased
    assert "output 0.5, phased 0.25" in text(method_bounds={"output": 0.5, "phased": 0.25})
