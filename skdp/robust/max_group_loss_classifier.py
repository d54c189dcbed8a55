"""Private linear classification for the worst group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import log_softmax

from skdp._estimator import encode
from skdp._types import (
    Auto,
    Calibration,
    ClassifierLoss,
    GroupMethod,
    GroupMirrorVariant,
    GroupMode,
    Preparation,
    Relation,
    Risk,
    Verbose,
)
from skdp.linear_model.linear_classifier import DPLinearClassifier
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.robust.group_labels import classes_as_groups
from skdp.robust.grouped_linear_model import GroupedLinearModel


class DPMaxGroupLossClassifier(GroupedLinearModel, DPLinearClassifier):
    """Differentially private linear classification whose worst group does well.

    Minimises the largest mean loss of a group of records, for example of people of one sex and
    race. Other classifiers minimise the mean over all records, in which small groups count little.
    The groups are needed during ``fit`` only. Data frames may keep their column in predictions.

    By default, with delta > 0, the model is fitted by noisy gradient steps. `alpha`, `coef_norm`,
    `solver`, ``objective="population"`` and a `loss` other than the log loss select solves on
    prepared rows, or of a saddle point. `delta` = 0, ``calibration="paper"`` and
    ``group_mode="floored"`` select the saddle point, where noise grows with the largest weight of a
    group. `method` names it.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples. 0 is pure epsilon-differential privacy, with spherical
        Laplace noise instead of Gaussian.
    loss : {"log_loss", "hinge", "smoothed_hinge", "squared_hinge"}, default="log_loss"
        As in :class:`~skdp.linear_model.DPLinearClassifier`.
    group_mode : {"auto", "proportions", "public", "histogram", "floored"}, default="auto"
        Weights of the groups' losses; group sizes are private unless said otherwise. "auto" is
        "proportions" where `group_proportions` are declared, and "histogram" otherwise.

        - "proportions": 1 / p_g, with the public `group_proportions` p_g.
        - "public": n_samples / n_g. Neighbours have the same groups: the noise is smaller, but
          whether somebody belongs to a group is not protected.
        - "histogram": 1 / p_g, with noisy p_g that cost a part of the budget.
        - "floored": n_samples / n_g, clipped at `max_group_weight`. Needs neither proportions nor
          a budget for them, but more noise. Not for the method "gradient".
    group_names : array-like or None, default=None
        The public set of groups. None: taken from `groups` with a `PrivacyLeakWarning`.
    group_proportions : array-like, dict or None, default=None
        Public proportions of the groups for "proportions", in the order of `group_names` (sorted,
        if these are None) or by name (also a Series of pandas); their sum is 1. None: equal ones,
        with a warning. They must not be frequencies in the private records.
    max_group_weight : "auto" or float, default="auto"
        Bound W on the weight of a group, >= 1. Noise grows with it. A group with a share p below
        1 / W counts for p W of a group. "auto": what the noise of the budget allows, by public
        numbers; "gradient" and weighted stages then have no bound, and choose the weights
        themselves.
    histogram_share : "auto" or float, default="auto"
        Part of the budget that "histogram" spends on the proportions. "auto": planned by the
        methods that choose the weights, else 0.1.
    release_group_weights : bool, default=False
        Whether ``group_weights_`` is released, in the same budget: the coefficients get more
        noise, but for "mirror_descent".
    alpha : "auto" or float, default="auto"
        L2 penalty of the objective. "auto" is 0; the saddle methods add regularisers. After a
        preparation it enters after the releases, as if the solution had had it.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of a row of X, > 0. Longer rows are scaled down to it,
        also in predictions. None: 1, with a warning: features that were not scaled exceed it.
    coef_norm : float or None, default=None
        Bound on the norm of the coefficients; after a preparation it enters after the releases. Of
        the saddle methods the radius of a ball, intercept weight included, and None is the norm of
        a good predictor on isotropic rows; a smaller radius means less noise there.
    coef_norm_l1 : float or None, default=None
        Of "mirror_descent": bound on the sum of the absolute coefficients, the intercept's weight
        included. None: the largest absolute target after centering, 3 for two classes or 1.5 for
        each of several ones, divided by `feature_bound`.
    feature_bound : float or None, default=None
        Of "mirror_descent": public bound on the absolute value of an entry of X, > 0. Entries are
        clipped to it, also in predictions. It is the value of the intercept's feature. None: 1,
        with a warning.
    mirror_variant : {"plain", "bias_reduced", "boosted"}, default="plain"
        Of "mirror_descent": the published algorithm (docs/guide/many_features.md). "plain" had the
        smallest error in measurements. "boosted" chooses the best of several models, each from a
        small part of the records, of which it needs many.
    fit_intercept : bool, default=True
        The intercept is the weight of a constant feature. The saddle methods penalise it like the
        others; an unpenalised one would have unbounded sensitivity there.
    intercept_scaling : float, default=0.1
        Value of that feature in units of `data_norm`.
    classes : array-like or None, default=None
        The public set of labels. None: taken from y with a `PrivacyLeakWarning`.
    neighbouring : {"replace_one", "add_remove"}, default="replace_one"
        Neighbouring data sets differ in one record replaced, or ("gradient", weighted stages and
        "mirror_descent") in one record added or removed: features, target and group.
    n_public : int or None, default=None
        Public nominal number of records for "add_remove". None: ``len(X)``, which discloses n.
    weight_bound : float or None, default=None
        Public bound on `sample_weight`: weights are divided by it and clipped to 1. The smaller it
        is, the less noise. None: 1, with a warning if weights are given.
    preparation : "auto" or None, default="auto"
        "auto": "output" and "phased" (delta > 0, at most 1000 features) are weighted stages, with
        any solver of minimisation problems: they learn privately where the data lie, look at the
        losses of the groups, and solve the problem for the weights that these call for. Not for
        `group_mode` "floored", numeric losses other than the squared error and a solver of saddle
        points. None: the printed saddle methods.
    method : {"auto", "gradient", "output", "phased", "rgda", "mirror_descent"}, default="auto"
        "gradient" (delta > 0) is planned noisy descent: first that of the plain model, then from
        there on, with weights of the groups by their noisy losses; it has no `alpha`, `coef_norm`
        or `solver`. "output" is weighted stages (see `preparation`); of the saddle methods it adds
        noise once, to the solution for all records, and "phased" solves on disjoint blocks of
        records, each around the noisy solution before, where a public bound is smaller. "rgda"
        (smooth losses, delta > 0) takes 100 noisy steps of one length, each with weights of the
        groups by their noisy losses (docs/guide/networks.md has a comparison). "mirror_descent"
        (smooth losses) draws vertices of an l1 ball, for many features that are bounded entrywise;
        it has `feature_bound` and `coef_norm_l1`, not `data_norm` and `coef_norm`. "auto" is
        "gradient" for the log loss and the squared error if no penalty, ball or solver was asked
        for, else "output" after a preparation or "phased"; ``privacy_.method`` is the method in
        use.
    objective : {"empirical", "population"}, default="empirical"
        Automatic choices for the loss on these records, or on others of their distribution.
    solver : str, Solver, SaddleSolver or callable, default="auto"
        "auto", a name such as "newton" or "lbfgs", a `skdp.solvers.Solver`, or a callable
        ``(problem, accuracy) -> array``, for weighted stages. A name such as "extragradient" or
        "accelerated_svrg", or a `skdp.solvers.SaddleSolver`, is for the printed saddle methods;
        with ``preparation=None`` a callable is one ``(problem, accuracy) -> (x, y)``.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published phases and constants, for comparison. They spend half of the budget;
        at realistic sizes their noise hides the coefficients.
    accountant : BudgetAccountant or None, default=None
        The budget that a fit is charged to before it reads a record, besides those of the open
        ``with`` blocks of :class:`skdp.BudgetAccountant`. None: those alone, if there are any.
    random_state : int, RandomState, Generator or None, default=None
        None draws the noise from the operating system's secure generator. Anything else
        makes it reproducible, for tests: anyone who knows the seed can subtract the noise.
    verbose : int or callable, default=0
        1 prints how many of the planned steps are done, and the progress of long solves; a callable
        is called as ``(name, done, planned)`` in place of it. That of solves depends on the
        records: it is not private.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private coefficients.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    alpha_ : float
        The penalty used; in phases and stages, `alpha`; of "gradient" that which the shrinkage
        of the plain model by its noise is about equivalent to.
    group_names_ : ndarray of shape (n_groups,)
        As declared, else sorted: the order of all that follows.
    group_proportions_ : ndarray of shape (n_groups,)
        Declared, public or, for "histogram", private ones; not for "floored".
    group_weights_ : ndarray of shape (n_groups,)
        Noisy worst-case weights on the simplex, larger for groups with larger losses. Only with
        `release_group_weights`.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    skdp.linear_model.DPLinearClassifier : For the mean loss.
    DPMaxGroupLossRegressor : For numbers.

    Notes
    -----
    With the groups' actual sizes the sensitivity would not be O(1 / n): a record that changes its
    group rescales the losses of two groups. With 1 / (n p_g) it is, see
    `skdp.problems.GroupWeights`. "gradient", the default, makes planned noisy steps on groups
    weighted by their noisy losses, and "output" solves for them on prepared rows
    (docs/theory/worst_group.md). Without a preparation "phased" and "output" solve the saddle
    problem to a proven accuracy and add noise for its sensitivity (Zhang et al. 2022, Alg. 4, with
    block constants and planned phases: docs/theory/saddle.md).

    References
    ----------
    L. Zhang, K. K. Thekumparampil, S. Oh, N. He, "Bring your own algorithm for optimal
    differentially private stochastic minimax optimization", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.robust import DPMaxGroupLossClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(50000, 2))
    >>> groups = rng.choice(["most", "few"], size=50000, p=[0.8, 0.2])
    >>> y = (np.where(groups == "most", X[:, 0], X[:, 1]) > 0).astype(int)
    >>> model = DPMaxGroupLossClassifier(
    ...     group_names=["most", "few"], group_proportions=[0.8, 0.2],
    ...     data_norm=1.0, classes=[0, 1], random_state=0,
    ... )
    >>> of_groups = model.fit(X, y, groups=groups).group_scores(X, y, groups)
    >>> bool(min(of_groups.values()) > 0.7)
    True
    """

    _gradient_losses = ("log_loss",)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: ClassifierLoss = "log_loss",
        group_mode: GroupMode = "auto",
        group_names: Any = None,
        group_proportions: Any = None,
        max_group_weight: float | Auto = "auto",
        histogram_share: float | Auto = "auto",
        release_group_weights: bool = False,
        alpha: float | Auto = "auto",
        data_norm: float | None = None,
        coef_norm: float | None = None,
        coef_norm_l1: float | None = None,
        feature_bound: float | None = None,
        mirror_variant: GroupMirrorVariant = "plain",
        fit_intercept: bool = True,
        intercept_scaling: float = 0.1,
        classes: Any = None,
        neighbouring: Relation = "replace_one",
        n_public: int | None = None,
        weight_bound: float | None = None,
        preparation: Preparation = "auto",
        method: GroupMethod = "auto",
        objective: Risk = "empirical",
        solver: Any = "auto",
        calibration: Calibration = "analytic",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.group_mode = group_mode
        self.group_names = group_names
        self.group_proportions = group_proportions
        self.max_group_weight = max_group_weight
        self.histogram_share = histogram_share
        self.release_group_weights = release_group_weights
        self.alpha = alpha
        self.data_norm = data_norm
        self.coef_norm = coef_norm
        self.coef_norm_l1 = coef_norm_l1
        self.feature_bound = feature_bound
        self.mirror_variant = mirror_variant
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.preparation = preparation
        self.method = method
        self.objective = objective
        self.solver = solver
        self.calibration = calibration
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _default_groups(self) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
        return classes_as_groups, self.classes_

    def _record_losses(self, X: Any, y: np.ndarray) -> np.ndarray:
        codes = encode(y, self.classes_, "y contains labels that are not in `classes`.")
        scores = self.decision_function(X)
        if scores.ndim == 1 or self.loss != "log_loss":
            return self._loss(len(self.classes_)).value(scores, codes)
        return -np.take_along_axis(log_softmax(scores, axis=1), codes[:, None], axis=1)[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # the tag's yardstick is an accuracy of 0.83 from 300 records, out of reach of their noise
        noisy = self.group_mode in ("floored", "histogram") or self.calibration == "paper"
        noisy = noisy or self.method in ("phased", "output", "mirror_descent")
        noisy = noisy or self.loss == "hinge" or self._has_solver
        tags.classifier_tags.poor_score = noisy
        return tags
