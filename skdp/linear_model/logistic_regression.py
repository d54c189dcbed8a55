"""Private logistic regression."""

from __future__ import annotations

from typing import Any

from skdp._types import (
    Auto,
    Calibration,
    LinearMethod,
    MirrorVariant,
    Preparation,
    Relation,
    Risk,
    Verbose,
)
from skdp.linear_model.classification import DPLinearClassification
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.problems import LogisticLoss, Loss, SoftmaxLoss


class DPLogisticRegression(DPLinearClassification):
    """Differentially private logistic regression, binary and multinomial.

    By default, with delta > 0, the model is fitted by noisy gradient steps that are
    planned from public numbers, and nothing has to be tuned. These parameters select another
    private algorithm: `delta` = 0 mostly objective perturbation, or output perturbation with
    `alpha` or `coef_norm`; `solver` output perturbation on prepared rows; `tilt`,
    ``objective="population"`` and ``calibration="paper"`` a printed algorithm, with far more noise.
    `method` names it.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples. 0 is pure epsilon-differential privacy, with spherical
        Laplace noise instead of Gaussian.
    alpha : "auto" or float, default="auto"
        L2 penalty in the convention of
        :class:`~sklearn.linear_model.SGDClassifier`: ``1 / (n_samples C)``. "auto": none but
        what noise asks for or, for the printed algorithms (see `preparation`), one that minimises a
        public bound on the expected loss. They need `coef_norm` with 0.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of a row of X, > 0. Longer rows are scaled down to it,
        also in predictions. None: 1, with a warning: features that were not scaled exceed it.
    coef_norm : float or None, default=None
        Largest norm of the coefficients; of the printed algorithms the radius of the ball that they
        live in (intercept weight included), whose default is data-independent.
    coef_norm_l1 : float or None, default=None
        Of "mirror_descent": bound on the sum of the absolute coefficients, the intercept's weight
        included. None: the largest absolute target after centering, 3 for two classes or 1.5 for
        each of several ones, divided by `feature_bound`.
    feature_bound : float or None, default=None
        Of "mirror_descent": public bound on the absolute value of an entry of X, > 0. Entries are
        clipped to it, also in predictions. It is the value of the intercept's feature. None: 1,
        with a warning.
    mirror_variant : {"plain", "anytime", "bias_reduced", "variance_reduced"}, default="plain"
        Of "mirror_descent": the published algorithm (docs/guide/many_features.md). "plain" had the
        smallest error in measurements; the others have better rates, or fewer assumptions.
    fit_intercept : bool, default=True
        Whether there is an intercept. It is free, but in printed algorithms, where an unpenalised
        one would have unbounded sensitivity: there it is the weight of a constant feature.
    intercept_scaling : float, default=0.1
        Value of that feature in units of `data_norm`; "gradient", "objective" and
        "statistics" have their own.
    classes : array-like or None, default=None
        The public set of labels. None: taken from y with a `PrivacyLeakWarning`.
    class_weight : dict, "balanced" or None, default=None
        Cost of an error for each class; 1 for those that are not named. Of the log loss it shifts
        the intercept after all releases, which has no price; without an intercept, and for other
        losses, it weighs the records. "balanced": inverse to the shares of the classes, as released
        by methods that prepare rows for the log loss ("gradient", "output"; delta > 0).
    neighbouring : {"replace_one", "add_remove"}, default="replace_one"
        Neighbouring data sets differ in one record replaced (their size is public), or in one
        record added or removed (`n_public` is then the size assumed), which takes down to half the
        noise in classifiers, and little less in regressors.
    n_public : int or None, default=None
        Public nominal number of records for "add_remove". None: ``len(X)``, which discloses n.
    weight_bound : float or None, default=None
        Public bound on `sample_weight`: weights are divided by it and clipped to 1. The smaller it
        is, the less noise. None: 1, with a warning if weights are given.
    max_records_per_user : int or None, default=None
        Of `user_ids`: a record weighs 1 over the number of its person's records, or over this
        if it is larger. Above 1 for a model of the average record, not of the average person, which
        has more noise. None: 1.
    preparation : "auto" or None, default="auto"
        "auto": methods learn privately where the data lie, before a solve, and `alpha` and
        `coef_norm` enter after the releases; so "gradient" (delta > 0) has them, too, and
        "output" for numbers and for two classes (delta > 0, at most 1000 features). None: the
        printed algorithms, where the penalty and the ball are those of the solve.
    method : {"auto", "gradient", "objective", "statistics", "output", \
            "phased", "exponential", "mirror_descent"}, default="auto"
        Private algorithm. "gradient" (delta > 0) releases means, makes planned noisy gradient steps
        on all records, and, for squared error and log loss, releases the size and the shift of
        their margins; it has no `solver`. "objective" (losses with a bounded derivative) solves one
        problem to which a random linear term was added; `alpha` is raised to what privacy needs,
        and the result is projected onto the ball of `coef_norm`. "statistics" (squared error, log
        loss of two classes) releases noisy moments, for the log loss gradients too; it has no
        `coef_norm` or `solver`, and chooses `alpha` "auto" on what it released. "output" adds noise
        once to the solution of the penalised problem. "phased" solves on disjoint blocks of
        records, each around the noisy solution of the one before; `alpha` "auto" is then 0, and
        `coef_norm` None a public radius that few predictors exceed on isotropic rows. "exponential"
        (delta = 0, few coefficients) draws from a density on such a ball, exactly; its run time is
        not bounded. "mirror_descent" (smooth losses) draws vertices of an l1 ball, for many
        features that are bounded entrywise and few that matter; it has `feature_bound` and
        `coef_norm_l1`, not `data_norm` and `coef_norm`. "auto" takes "gradient" (delta > 0); with a
        solver, or for squared errors with delta = 0, "output" after a preparation; "objective"
        (delta = 0, no penalty and no ball) where they apply, else the smallest public bound on the
        expected loss; the bounds are in ``privacy_.plan["method_bounds"]``.
    objective : {"empirical", "population"}, default="empirical"
        Automatic choices for the loss on these records, or on others of their distribution.
    tilt : float, default=0.0
        Above 0, the mean loss is replaced by ``log(mean(exp(tilt * loss))) / tilt``, in which
        records with a large loss weigh more. The noise grows with the largest weight of a record,
        which a small `coef_norm` bounds.
    solver : str, Solver or callable, default="auto"
        "auto", a name of `skdp.solvers.SOLVERS` such as "newton", "lbfgs" or "svrg", a
        `skdp.solvers.Solver`, or a callable ``(problem, accuracy) -> array``.
    calibration : {"analytic", "paper"}, default="analytic"
        "paper": the published constants, errata corrected, for comparison.
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
    coef_noise_ : ndarray of the shape of `coef_`
        Standard deviations of what the noise adds to the coefficients, from what was released;
        missing for methods that do not tell it (docs/guide/noise_of_a_fit.md).
    intercept_noise_ : float or ndarray of the shape of `intercept_`
        The same of the intercept.
    alpha_ : float
        The penalty used.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Notes
    -----
    Noise of "gradient": docs/theory/core.md, Theorem 1. Of "objective":
    docs/theory/objective_perturbation.md, Theorems 1 to 6. Of the others: Lowy and
    Razaviyayn (2021), Prop. 3.1; sensitivity ``D / (alpha n)`` with the gradient diameter D of
    :class:`skdp.problems.LogisticLoss` or :class:`skdp.problems.SoftmaxLoss`. Multinomial
    coefficients sum to zero over the classes, and so does their noise. Proofs: docs/theory.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(5000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = DPLogisticRegression(data_norm=1.0, classes=[0, 1], random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.privacy_.epsilon, model.privacy_.delta
    (1.0, 1e-06)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        alpha: float | Auto = "auto",
        data_norm: float | None = None,
        coef_norm: float | None = None,
        coef_norm_l1: float | None = None,
        feature_bound: float | None = None,
        mirror_variant: MirrorVariant = "plain",
        fit_intercept: bool = True,
        intercept_scaling: float = 0.1,
        classes: Any = None,
        class_weight: Any = None,
        neighbouring: Relation = "replace_one",
        n_public: int | None = None,
        weight_bound: float | None = None,
        max_records_per_user: int | None = None,
        preparation: Preparation = "auto",
        method: LinearMethod = "auto",
        objective: Risk = "empirical",
        tilt: float = 0.0,
        solver: Any = "auto",
        calibration: Calibration = "analytic",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.data_norm = data_norm
        self.coef_norm = coef_norm
        self.coef_norm_l1 = coef_norm_l1
        self.feature_bound = feature_bound
        self.mirror_variant = mirror_variant
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
        self.class_weight = class_weight
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.max_records_per_user = max_records_per_user
        self.preparation = preparation
        self.method = method
        self.objective = objective
        self.tilt = tilt
        self.solver = solver
        self.calibration = calibration
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    def _loss(self, n_classes: int) -> Loss:
        return LogisticLoss() if n_classes == 2 else SoftmaxLoss(n_classes)
