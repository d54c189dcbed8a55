"""All draws of a fit, of any method, against what its report states."""

import json

import numpy as np
import pytest

from skdp.algorithms.exponential.mechanism import bound_oscillation
from skdp.privacy.events import (
    ExponentialMechanismEvent,
    GaussianEvent,
    PoissonSampledSumEvent,
    PureEvent,
)
from skdp.privacy.events import flatten_event as leaves
from skdp.privacy.gaussian_dp import gaussian_mu, pure_mu
from skdp.privacy.report import PrivacyReport


def multiplier_of(leaf):
    """Noise scale per unit of sensitivity that an event stands for."""
    if isinstance(leaf, PoissonSampledSumEvent):
        leaf = leaf.event
    if isinstance(leaf, GaussianEvent):
        return leaf.noise_multiplier
    assert isinstance(leaf, PureEvent)
    return 1.0 / leaf.epsilon


def is_descent(release):
    """Whether a release stands for many steps, or solves, as one."""
    names = (
        "solves as one",
        "sums of clipped gradients",
        "sums of weighted gradients",
        "size and shift",
    )
    return any(name in release.name for name in names)


def has_two_draws(report, release):
    """Whether an event stands for two draws, as in DP-RGDA: of losses, then of a gradient."""
    return report.method == "rgda" and is_descent(release)


def parts_of(fitted, laboratory):
    """The draws of each release, in order: pairs (release, draws)."""
    report = fitted.privacy_
    draws = [draw for draw in laboratory.draws if draw.kind != "batch"]
    releases, plan = list(report.releases), report.plan
    pairs = []
    if "inner" in plan:  # bilevel as published
        counts = [sum(count for _, count in leaves(release.event)) for release in releases[:2]]
        size = counts[0] // plan["n_steps"]
        assert counts == [size * plan["n_steps"]] * 2
        steps = draws[: sum(counts)]
        number = np.arange(len(steps)) // size % 2  # lower and penalised solutions by turns
        for k in range(2):
            pairs.append((releases[k], [steps[i] for i in np.flatnonzero(number == k)]))
        draws, releases = draws[sum(counts) :], releases[2:]
    drawn = [draw for draw in draws if draw.kind == "vertices"]
    if drawn:
        of_vertices = [release for release in releases if release.mechanism == "exponential"]
        for k, release in enumerate(of_vertices):
            uniform, *charged = drawn[k :: len(of_vertices)]  # blocks by turns
            assert not uniform.value.any()
            pairs.append((release, charged))
        draws = [draw for draw in draws if draw.kind != "vertices"]
        releases = [release for release in releases if release.mechanism != "exponential"]
    for release in releases:
        count = sum(count for _, count in leaves(release.event))
        if is_descent(release):
            count = int(release.name.split(", ")[1].split()[0])
            count *= 1 + has_two_draws(report, release)
        elif release is releases[-1] and "block_sizes" in plan:
            count = len(plan["block_sizes"])
        pairs.append((release, draws[:count]))
        draws = draws[count:]
    assert not draws, "draws that no release speaks of"
    return pairs


def check_draws(fitted, laboratory):
    """All draws of a fit, of any method, against its report."""
    report = fitted.privacy_
    if isinstance(report, PrivacyReport):
        plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
        assert json.loads(json.dumps(PrivacyReport.from_dict(plain).to_dict())) == plain
    for release, draws in parts_of(fitted, laboratory):
        assert draws
        if has_two_draws(report, release):
            check_queries(report, release, draws)
            continue
        if draws[0].kind == "vertices":
            check_vertices(release, draws)
            continue
        if is_descent(release):
            check_steps(report, release, draws)
            continue
        for draw in draws:
            if draw.kind == "choice":
                ((leaf, _),) = leaves(release.event)
                assert isinstance(leaf, ExponentialMechanismEvent)
                assert draw.rate == pytest.approx(leaf.epsilon, rel=1e-12)
                assert release.noise_scale == pytest.approx(2.0 / draw.rate, rel=1e-12)
            elif draw.kind == "exponential":
                check_point(fitted, release, draw, laboratory)
            elif release.mechanism == "exponential":
                check_localisation(fitted, release, draw)
            else:
                check_noise(release, draw)
        if release.mechanism != "exponential":
            check_scales(report, release, draws)
    check_batches(fitted, laboratory)


def check_noise(release, draw):
    """One draw of additive noise and the event of its release."""
    assert draw.kind == release.mechanism
    if release.name == "gradient at the minimiser":  # its event has the cost of the Hessian as well
        assert not draw.value.any()
        assert draw.mechanism.sensitivity == pytest.approx(release.sensitivity, rel=1e-12)
        return
    wanted = {multiplier_of(leaf) for leaf, _ in leaves(release.event)}
    assert len(wanted) == 1
    assert draw.scale / draw.mechanism.sensitivity == pytest.approx(wanted.pop(), rel=1e-9)
    if draw.within is not None:  # a private solver: its own statement for this very problem
        solver, constants, multiplier = draw.within
        stated = solver.release("", constants, multiplier, 1)
        assert draw.scale == pytest.approx(stated.noise_scale, rel=1e-9)
        assert draw.mechanism.sensitivity == pytest.approx(stated.sensitivity, rel=1e-9)
        assert draw.dimension == stated.dimension


def check_steps(report, release, draws):
    """Noisy steps: together they cost what one release costs."""
    ((leaf, _),) = leaves(release.event)
    is_pure = isinstance(leaf, PureEvent)
    kind, power = ("spherical_laplace", -1.0) if is_pure else ("gaussian", -2.0)
    for draw in draws:
        assert (draw.kind, draw.dimension) == (kind, release.dimension)
        assert draw.mechanism.sensitivity >= release.sensitivity * (1.0 - 1e-12)
    if "solves as one" in release.name:  # the least one is stated, but for certificates
        least = min(draw.mechanism.sensitivity for draw in draws)
        assert least == pytest.approx(release.sensitivity, rel=0.01)
    multipliers = np.array([draw.scale / draw.mechanism.sensitivity for draw in draws])
    stated = release.noise_scale / release.sensitivity
    total = 1.0 / leaf.epsilon if is_pure else leaf.noise_multiplier
    assert stated == pytest.approx(total, rel=1e-12)
    assert (multipliers**power).sum() == pytest.approx(total**power, rel=1e-9)


def check_queries(report, release, draws):
    """Pairs of draws of equal costs, which together are that of the release."""
    ((leaf, count),) = leaves(release.event)
    assert count == 1 and report.plan["n_steps"] == len(draws) // 2
    scales = np.array([draw.scale / draw.mechanism.sensitivity for draw in draws]).reshape(-1, 2)
    costs = (scales**-2.0).sum(axis=1)
    np.testing.assert_allclose(costs, costs[0], rtol=1e-9)
    assert costs.sum() == pytest.approx(leaf.noise_multiplier**-2.0, rel=1e-9)
    sizes = {draw.dimension for draw in draws[::2]}, {draw.dimension for draw in draws[1::2]}
    assert sizes[0] == {len(report.plan["group_names"])}
    assert sum(map(sum, sizes)) == release.dimension


def check_vertices(release, draws):
    """Draws from a softmax: their number, that of the vertices, and the largest sensitivity."""
    assert sum(draw.dimension for draw in draws) == len(ranges_of(release))
    assert {draw.value.shape for draw in draws} == {(release.dimension,)}
    assert release.sensitivity == pytest.approx(0.5 * max(ranges_of(release)), rel=1e-12)
    assert release.noise_scale == 1.0


def ranges_of(release):
    """Range of the privacy loss of each draw of a vertex, in order."""
    return [leaf.epsilon for leaf, count in leaves(release.event) for _ in range(count)]


def check_scales(report, release, draws):
    """Scales and dimensions as the report states them."""
    plan, sizes = report.plan, report.plan.get("block_sizes", [0])
    stated = draws[-1] if len(sizes) > 1 else draws[0]  # of phases the last is stated
    # there may be many records: rounding goes by the released center, no less than planned
    error = 1e-9 if release.event.neighbouring == "replace_one" else 1e-6
    assert stated.scale == pytest.approx(release.noise_scale, rel=error)
    assert stated.mechanism.sensitivity == pytest.approx(release.sensitivity, rel=error)
    assert stated.mechanism.sensitivity >= release.sensitivity * (1.0 - 1e-9)
    assert stated.dimension == release.dimension
    if release is not report.releases[-1] or "noise_scales" not in plan:
        return
    sensitivities = [draw.mechanism.sensitivity for draw in draws]
    np.testing.assert_allclose(sensitivities, plan["sensitivities"], rtol=1e-9)
    joint = plan.get("released") == "joint"  # the last scale is then one of two blocks
    scales = [draw.scale for draw in draws]
    count = len(draws) - joint
    np.testing.assert_allclose(scales[:count], plan["noise_scales"][:count], rtol=1e-9)
    assert sum(sizes) == release.n_records


def check_point(fitted, release, draw, laboratory):
    """A draw from a density: its concentration and its epsilon."""
    plan, n = fitted.privacy_.plan, release.n_records
    assert draw.dimension == release.dimension
    if "local_radius" not in plan:
        assert draw.rate == pytest.approx(n / release.noise_scale, rel=1e-12)
        ((leaf, _),) = leaves(release.event)
        assert draw.rate * release.sensitivity / n == pytest.approx(leaf.epsilon, rel=1e-12)
    else:  # around a released centre, where losses differ by less than at worst
        assert draw.rate >= plan["concentration"] * (1 - 1e-12)
        density, norm = draw.details["records"], float(np.linalg.norm(laboratory.releases[0]))
        radii = plan["local_radius"], min(norm, plan["radius"]), plan["radius"]
        oscillation = bound_oscillation(density.loss, density.records.norm_bound, *radii)
        assert draw.rate == pytest.approx(0.5 * n * fitted.epsilon / oscillation, rel=1e-9)


def check_localisation(fitted, release, draw):
    """The noisy centre of a localised draw."""
    plan = fitted.privacy_.plan
    ((pure, _),) = (pair for pair in leaves(release.event) if isinstance(pair[0], PureEvent))
    assert draw.scale == pytest.approx(plan["noise_scale"], rel=1e-9)
    assert draw.scale / draw.mechanism.sensitivity == pytest.approx(1 / pure.epsilon, rel=1e-9)


def check_batches(fitted, laboratory):
    """Batches: one before each draw whose event is sampled, of all its records at its rate."""
    sampled = [
        (leaf.sampling_probability, count)
        for release in fitted.privacy_.releases
        for leaf, count in leaves(release.event)
        if isinstance(leaf, PoissonSampledSumEvent)
    ]
    batches = [draw for draw in laboratory.draws if draw.kind == "batch"]
    assert len(batches) == sum(count for _, count in sampled)
    for draw in batches:
        assert draw.rate == pytest.approx(sampled[0][0], rel=1e-12)
        assert draw.dimension == draw.within[1].n_records


def whole_cost(report):
    """The budget as costs of draws are summed: epsilon, or the square of mu."""
    return report.epsilon if report.delta == 0 else gaussian_mu(report.epsilon, report.delta) ** 2


def cost_of_moves(report, first, second):
    """Check that values of two fits differ by the sensitivities at most; what those draws cost."""
    total = 0.0
    for mine, its in zip(first, second, strict=True):
        if mine.kind == "exponential":  # the events are checked with the draws
            (epsilon,) = (
                leaf.epsilon
                for leaf, _ in leaves(report.event)
                if isinstance(leaf, ExponentialMechanismEvent)
            )
            total += epsilon
        if mine.kind in ("exponential", "batch"):
            continue
        change = mine.value - its.value
        if mine.kind == "choice":
            length, largest, epsilon = abs(change).max(), 1.0, mine.rate
        else:
            length, largest = np.linalg.norm(change), mine.mechanism.sensitivity
            epsilon = largest / mine.scale
        assert length <= largest * (1 + 1e-9)
        if length > 0.0:
            square = pure_mu(0.5 * epsilon) if mine.kind == "choice" else epsilon
            total += epsilon if report.delta == 0 else square**2
    return total
