"""Private linear classification for the worst group."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax

from skdp._estimator import encode
from skdp._sources import UNKNOWN_LABELS
from skdp._types import Auto, ClassifierLoss, GroupMethod, Relation, Verbose
from skdp.linear_model.linear_classifier import DPLinearClassifier
from skdp.methods import Method
from skdp.privacy.budget_accountant import BudgetAccountant
from skdp.robust.grouped_linear_model import GroupedLinearModel


class DPMaxGroupLossClassifier(GroupedLinearModel, DPLinearClassifier):
    """Differentially private linear classification whose worst group does well.

    Minimises the largest mean loss of a group of records, for example of people of one sex and
    race. Other classifiers minimise the mean over all records, in which small groups count little.
    The groups are needed during ``fit`` only. Data frames may keep their column in predictions.

    By default, with delta > 0, the model is fitted by noisy gradient steps. `solver` and some
    `loss` select solves in place of steps; `delta` = 0 the published saddle point, where noise
    grows with the largest weight of a group.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0.
    delta : float, default=1e-6
        In [0, 1), far below 1 / n_samples; 0 is pure epsilon-differential privacy.
    loss : {"log_loss", "hinge", "smoothed_hinge", "squared_hinge"}, default="log_loss"
        As in :class:`~skdp.linear_model.DPLinearClassifier`.
    group_names : array-like or None, default=None
        The public set of groups. None: taken from `groups` with a `PrivacyLeakWarning`.
    group_proportions : {"private", "public"}, array-like or dict, default="private"
        The sizes of the groups. "private": released with noise, from a part of the budget.
        "public": those of `groups`, whose values are then not protected. Else public proportions,
        in the order of `group_names` (sorted, if these are None) or by name (also a Series of
        pandas), whose sum is 1; they must not be frequencies in the private records.
    alpha : "auto" or float, default="auto"
        L2 penalty of the objective, which selects "output" and enters after the releases. "auto":
        none. Methods as published have their own.
    data_norm : float or None, default=None
        Public bound on the Euclidean norm of rows; longer ones are shrunk. None: 1 and a warning.
    fit_intercept : bool, default=True
        Whether there is an intercept: free, but penalised in methods as published.
    classes : array-like or None, default=None
        The public labels, sorted in `classes_`. None: taken from y with a `PrivacyLeakWarning`.
    neighbouring : {"replace_one", "add_remove"}, default="replace_one"
        Neighbouring data sets differ in one record replaced, or ("gradient", "output" and
        "mirror_descent") in one record added or removed: features, target and group.
    n_public : int or None, default=None
        Public nominal number of records for "add_remove". None: ``len(X)``, which discloses n.
    weight_bound : float or None, default=None
        Public bound on `sample_weight`; larger weights are clipped to it. None: 1, with a warning.
    method : {"auto", "gradient", "output", "saddle", "phased", "rgda", "mirror_descent"} \
            or Method, default="auto"
        Private algorithm: a name, or an object of :mod:`skdp.methods` with parameters of its own.
        "auto" is "gradient" for delta > 0, the log loss and the squared error; else, and with an
        `alpha` or a `solver`, "output", where it is proven, or "phased".
    solver : str, Solver, SaddleSolver or callable, default="auto"
        What solves: "auto", a name such as "newton" or "lbfgs", a `skdp.solvers.Solver`, or a
        callable ``(problem, accuracy) -> array``; it selects "output". A name such as
        "extragradient", or a `skdp.solvers.SaddleSolver`, selects "phased", where a callable is one
        ``(problem, accuracy) -> (x, y)``. An object of `method` has its own.
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
        The penalty used; of "gradient" what the shrinkage by its noise is equivalent to.
    group_names_ : ndarray of shape (n_groups,)
        As declared, else sorted: the order of all that follows.
    group_proportions_ : ndarray of shape (n_groups,)
        Declared, public or released ones; missing where none are needed.
    group_weights_ : ndarray of shape (n_groups,)
        Noisy worst-case weights on the simplex, larger for groups with larger losses.
        Missing for saddle points that do not release them.
    privacy_ : PrivacyReport
        All releases and their cost.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    skdp.linear_model.DPLinearClassifier : For the mean loss.
    DPMaxGroupLossRegressor : For numbers.

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

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        loss: ClassifierLoss = "log_loss",
        group_names: Any = None,
        group_proportions: Any = "private",
        alpha: float | Auto = "auto",
        data_norm: float | None = None,
        fit_intercept: bool = True,
        classes: Any = None,
        neighbouring: Relation = "replace_one",
        n_public: int | None = None,
        weight_bound: float | None = None,
        method: GroupMethod | Method = "auto",
        solver: Any = "auto",
        accountant: BudgetAccountant | None = None,
        random_state: Any = None,
        verbose: Verbose = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.loss = loss
        self.group_names = group_names
        self.group_proportions = group_proportions
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

    def _record_losses(self, X: Any, y: np.ndarray) -> np.ndarray:
        codes = encode(y, self.classes_, UNKNOWN_LABELS)
        scores = self.decision_function(X)
        if scores.ndim == 1 or self.loss != "log_loss":
            return self._loss(len(self.classes_)).value(scores, codes)
        return -np.take_along_axis(log_softmax(scores, axis=1), codes[:, None], axis=1)[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # the tag's yardstick is an accuracy of 0.83 from 300 records, out of reach of their noise
        is_default = self.method == "auto" and not self._has_solver and self.loss != "hinge"
        tags.classifier_tags.poor_score = not is_default
        return tags
