"""Private least squares that withstands perturbed features."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp._types import AttackedMethod, Auto, Relation, Verbose
from skdp.linear_model.regression import DPLinearRegression
from skdp.methods import Method
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.problems import Attack
from skdp.robust.attacked_model import AttackedLinearModel


class DPAdversarialRegressor(AttackedLinearModel, DPLinearRegression):
    """Differentially private least squares under attack.

    Minimises the mean over the records of the *worst* squared error that an attacker can cause by
    moving the features of the record a little. The worst case has a closed form,
    ``(|error| + attack_radius * norm)^2 / 2`` with the dual norm of the coefficients, the Euclidean
    norm for `attack_norm` 2, the sum of the absolute values for infinity, and the largest one for
    1.

    By default, with delta > 0, the model is fitted by noisy gradient steps. `delta` = 0, `alpha`
    and `solver` select output perturbation of a penalised problem, with more noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples; 0 is pure epsilon-differential privacy.
    attack_norm : {1, 2, numpy.inf} or callable, default=2
        Norm that the attacker's perturbation is measured in. A callable ``weights -> ndarray`` is
        any convex set with 0 in it: it returns the perturbation p in it with the largest
        ``p . weights``, for `attack_radius` 1 (a gradient of the support function). It needs
        noisy gradients.
    attack_radius : float, default=0.1
        Largest size of a perturbation, in the units of the rows *after* they were scaled down to
        `data_norm`: the attacker moves the bounded row, the constant feature of the intercept
        excepted. 0 is the model without an attack.
    alpha : "auto" or float, default="auto"
        L2 penalty on the mean loss, which selects "output". "auto": of "output", by a public bound
        on the expected loss, a function of the shape of X, the budget, the attack and the bounds.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of rows; longer ones are shrunk. None: 1 and a warning.
    target_range : tuple of two floats or None, default=None
        Public range of y; targets and predictions are clipped to it. None: (-1, 1) and a warning.
    fit_intercept : bool, default=True
        Whether there is an intercept: free, but penalised in methods as published.
    neighbouring : {"replace_one", "add_remove"}, default="replace_one"
        Neighbouring data sets differ in one record replaced, or added or removed, with less noise.
    n_public : int or None, default=None
        Public nominal number of records for "add_remove". None: ``len(X)``, which discloses n.
    weight_bound : float or None, default=None
        Public bound on `sample_weight`; larger weights are clipped to it. None: 1, with a warning.
    method : {"auto", "gradient", "output"} or Method, default="auto"
        A name, or an object of :mod:`skdp.methods`. "gradient" descends along noisy sums of
        clipped gradients, each at the row as the attacker moves it. "output" is
        :class:`skdp.methods.OutputPerturbation`.
    solver : str, Solver or callable, default="auto"
        As of :class:`~skdp.linear_model.DPLinearClassifier`. Solvers that draw batches of records
        are refused: the worst cases of all records share a term.
    accountant : BudgetAccountant or None, default=None
        Is charged before a record is read, besides those of open ``with`` blocks.
    random_state : int, RandomState, Generator or None, default=None
        None: the system's secure generator. A seed is for tests: who knows it subtracts the noise.
    verbose : int or callable, default=0
        1 prints the progress; a callable is given ``(name, done, planned)``. It is not private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Private coefficients, in units of y per unit of X.
    intercept_ : float
    target_range_ : tuple of two floats
        That of the fit, which predictions are clipped to.
    alpha_ : float
        The penalty used.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    skdp.linear_model.DPRidge : Without an attack.
    DPAdversarialClassifier : For labels; how a smooth surrogate stands for the worst case.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.robust import DPAdversarialRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(20000, 2))
    >>> y = X[:, 0]
    >>> model = DPAdversarialRegressor(data_norm=1.0, target_range=(-1, 1), random_state=0)
    >>> model = model.fit(X, y)
    >>> bool(model.score(X, y) > 0.6)
    True
    >>> bool(model.attacked_score(X, y) < model.score(X, y))
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        attack_norm: Any = 2,
        attack_radius: float = 0.1,
        alpha: float | Auto = "auto",
        data_norm: float | None = None,
        target_range: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        neighbouring: Relation = "replace_one",
        n_public: int | None = None,
        weight_bound: float | None = None,
        method: AttackedMethod | Method = "auto",
        solver: Any = "auto",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.attack_norm = attack_norm
        self.attack_radius = attack_radius
        self.alpha = alpha
        self.data_norm = data_norm
        self.target_range = target_range
        self.fit_intercept = fit_intercept
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.method = method
        self.solver = solver
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    def _attacked_score(self, scores: np.ndarray, attack: Attack, y: np.ndarray) -> float:
        coef, scores = np.ravel(self.coef_), scores[:, 0]
        moved = scores - attack.rise(-coef), scores + attack.rise(coef)
        ends = np.clip(moved, *self.target_range_)  # as predictions
        worst, away = np.abs(ends - y).max(axis=0), y - y.mean(dtype=np.float64)
        return float(1.0 - (worst @ worst) / (away @ away))
