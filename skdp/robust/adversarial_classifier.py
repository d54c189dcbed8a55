"""Private linear classification that withstands perturbed features."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdp._types import AttackedMethod, Auto, ClassifierLoss, Relation, Verbose
from skdp.linear_model.linear_classifier import DPLinearClassifier
from skdp.methods import Method
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.problems import Attack
from skdp.robust.attacked_model import AttackedLinearModel


class DPAdversarialClassifier(AttackedLinearModel, DPLinearClassifier):
    """Differentially private linear classification under attack.

    Minimises the mean over the records of the *worst* loss that an attacker can cause by moving
    the features of the record a little. The worst case has a closed form: it lowers the margin of
    the true class by ``attack_radius`` times the dual norm of the coefficients, the Euclidean norm
    for `attack_norm` 2, the sum of the absolute values for infinity, and the largest one for 1.
    For several classes (log loss, noisy gradients) each wrong class has a move of its own, an upper
    bound on the worst loss.

    By default, with delta > 0, the model is fitted by noisy gradient steps. `delta` = 0, `alpha`
    and `solver` select output perturbation of a penalised problem, with more noise.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples; 0 is pure epsilon-differential privacy.
    loss : {"log_loss", "hinge", "smoothed_hinge", "squared_hinge"}, default="log_loss"
        As in :class:`~skdp.linear_model.DPLinearClassifier`.
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
    fit_intercept : bool, default=True
        Whether there is an intercept: free, but penalised in methods as published.
    classes : array-like or None, default=None
        The public labels, sorted in `classes_`. None: taken from y with a `PrivacyLeakWarning`.
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
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Private coefficients.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    alpha_ : float
        The penalty used.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Notes
    -----
    "gradient": docs/theory/core.md, section 8. For "output": neither the worst case of a record nor
    its dual norm is smooth (erratum L19). The fit minimises a smooth surrogate, for which the
    guarantee is proven. It understates the attack's effect on a margin by at most
    ``privacy_.plan["smoothing"]``: 5 % of the standard deviation that the noise gives to a margin,
    but between 0.05 % and 5 % of a good predictor's margins. Noise: Lowy and Razaviyayn (2021),
    Prop. 3.1 and section 5.2; constants and proofs in `skdp.problems.adversarial`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.robust import DPAdversarialClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(20000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = DPAdversarialClassifier(data_norm=1.0, classes=[0, 1], random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> bool(model.attacked_score(X, y) < model.score(X, y))
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: ClassifierLoss = "log_loss",
        attack_norm: Any = 2,
        attack_radius: float = 0.1,
        alpha: float | Auto = "auto",
        data_norm: float | None = None,
        fit_intercept: bool = True,
        classes: Any = None,
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
        self.loss = loss
        self.attack_norm = attack_norm
        self.attack_radius = attack_radius
        self.alpha = alpha
        self.data_norm = data_norm
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.neighbouring = neighbouring
        self.n_public = n_public
        self.weight_bound = weight_bound
        self.method = method
        self.solver = solver
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _only_binary(self) -> str | None:
        if self.loss == "log_loss" and self._has_steps:
            return None
        return "adversarially robust training of several needs the log loss and noisy gradients"

    def _attacked_score(self, scores: np.ndarray, attack: Attack, y: np.ndarray) -> float:
        coef = self.coef_
        if len(self.classes_) == 2:
            first, second = (y == label for label in self.classes_)
            falls, rises = attack.rise(-coef[0]), attack.rise(coef[0])
            right = (second & (scores[:, 0] - falls > 0)) | (first & (scores[:, 0] + rises <= 0))
            return float(right.mean())
        right = np.zeros(len(y), dtype=bool)
        for code, label in enumerate(self.classes_):
            against = scores + [attack.rise(other - coef[code]) for other in coef]
            others = np.delete(against, code, axis=1).max(axis=1)
            right |= (y == label) & (scores[:, code] > others)
        return float(right.mean())
