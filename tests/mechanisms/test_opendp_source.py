"""OpenDP's sampler in place of ours; Theorem 2 of docs/theory/noise.md."""

import builtins
import threading
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import clone

from skdp import (
    BudgetAccountant,
    DPMaxGroupLossMLPClassifier,
    DPRidge,
    DPStandardScaler,
    DPSyntheticData,
)
from skdp.algorithms import Run
from skdp.mechanisms import GaussianMechanism, NoiseSource, OpenDPNoise, opendp_noise, secure_noise
from skdp.mechanisms.noise_source import SECURE
from skdp.mechanisms.opendp_source import GROWTH, LOG_STEPS

#: False alarms of each test of a law; their draws are not seeded.
ALARM = 1e-6
X = np.full((40, 2), 0.5)
MODEL = DPRidge(1.0, 1e-6, method="output_perturbation", data_norm=1.0, target_range=(-1, 1))


class Counted(NoiseSource):
    """Ours, counting what it adds."""

    name = "counted"
    added = 0

    def add_normal(self, value, scale):
        type(self).added += value.size
        return super().add_normal(value, scale)


def test_fits_of_a_block_and_its_thread_use_another_source():
    Counted.added = 0
    with SECURE.holding(Counted):
        assert isinstance(secure_noise(), Counted)
        assert isinstance(Run().noise, Counted)
        MODEL.fit(X, X[:, 0])
        assert Counted.added == 3
        assert MODEL.privacy_.noise_source == "counted"
        seeded = DPRidge(**{**MODEL.get_params(), "random_state": 0}).fit(X, X[:, 0])
        assert seeded.privacy_.noise_source == "skdp"
        other = threading.Thread(target=MODEL.fit, args=(X, X[:, 0]))
        other.start()
        other.join()
        assert Counted.added == 3 and MODEL.privacy_.noise_source == "skdp"
    assert type(secure_noise()) is NoiseSource


@pytest.mark.parametrize(
    "model",
    [
        DPStandardScaler(ranges=(-1, 1)),
        DPSyntheticData(epsilon=1.0, delta=1e-6, categories=[[0, 1]] * 2),
        DPMaxGroupLossMLPClassifier(
            1.0,
            1e-6,
            n_steps=2,
            **{"data_norm": 1.0, "classes": [0, 1], "group_names": [0, 1]},
            **{"group_proportions": [0.5, 0.5]},
        ),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_reports_name_the_source(model):
    groups = np.arange(40) % 2
    given = {"y": groups, "groups": groups} if hasattr(model, "group_names") else {}
    with SECURE.holding(Counted):
        assert clone(model).fit(np.zeros((40, 2)), **given).privacy_.noise_source == "counted"
    assert clone(model).fit(np.zeros((40, 2)), **given).privacy_.noise_source == "skdp"


def test_without_opendp(monkeypatch):
    load = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("opendp"):
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"skdp\[opendp\]"), opendp_noise():
        raise AssertionError
    assert type(secure_noise()) is NoiseSource


def test_growth_covers_the_rounding_of_values():
    """(Delta + g sqrt d) / (growth sigma) <= Delta / sigma, for sigma / g >= 2^160, exactly."""
    for log_mu, log_root in ((-100, 30), (-60, 15), (0, 30), (10, 0)):
        mu, root = Fraction(2) ** log_mu, Fraction(2) ** log_root
        assert (mu + root / 2**LOG_STEPS) / Fraction(GROWTH) <= mu


def test_opendp_adds_the_noise():
    opendp = pytest.importorskip("opendp.measurements")
    made = []
    with pytest.MonkeyPatch.context() as patch:
        make = opendp.make_gaussian
        patch.setattr(
            opendp,
            "make_gaussian",
            lambda *args, **kwargs: made.append((make(*args, **kwargs), kwargs)) or made[-1][0],
        )
        with opendp_noise(), BudgetAccountant(2.0, 1e-6) as accountant:
            model = clone(MODEL).fit(X, X[:, 0])
        MODEL.fit(X, X[:, 0])
    assert model.privacy_.noise_source == model.privacy_.to_dict()["noise_source"] == "opendp"
    assert "source of the normal noise: opendp" in str(model.privacy_)
    ((measurement, options),) = made
    (release,) = model.privacy_.releases
    assert options["scale"] == release.noise_scale * GROWTH
    assert release.noise_scale * 2.0**-161 < 2.0 ** options["k"] <= release.noise_scale * 2.0**-160
    # its own proof, rounding of the value included, is not above the zCDP of ours
    rho = (release.sensitivity / release.noise_scale) ** 2 / 2.0
    assert measurement.map(release.sensitivity) <= rho
    assert measurement.map(release.sensitivity) >= rho * (1 - 1e-8)
    assert accountant.total().epsilon == pytest.approx(1.0)


@pytest.mark.audit
def test_opendp_has_the_law():
    pytest.importorskip("opendp")
    noise = GaussianMechanism(2.0, 1.5).release(np.full(5000, 7.0), OpenDPNoise())
    assert kstest((noise - 7.0) / 3.0, "norm").pvalue > ALARM
    assert kstest((noise - 7.0) / 4.5, "norm").pvalue < ALARM


def test_opendp_takes_any_value():
    pytest.importorskip("opendp")
    source = OpenDPNoise()
    value = np.array([0.0, 5e-324, -1.7e308, np.inf, np.nan])
    for scale in (1e-270, 1.0, 1e290):
        assert np.isfinite(source.add_normal(value, scale)).all()
    assert source.add_normal(np.zeros(0), 1.0).size == 0
    for scale in (1e-300, 1e295):
        with pytest.raises(ValueError, match="OpenDP needs"):
            source.add_normal(value, scale)
    pure = DPRidge(1.0, 0.0, method="output", data_norm=1.0, target_range=(-1, 1))
    with opendp_noise():
        assert pure.fit(X, X[:, 0]).privacy_.releases[0].mechanism == "spherical_laplace"
