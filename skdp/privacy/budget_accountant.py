"""The budget of a whole program: every fit is paid for before it reads a record."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import platform
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from skdp._checks import InvalidTypeError, check_real, shown
from skdp.privacy.blocks import Block, close_block, open_block, publish
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.charges import BudgetExceededError, charge, check_affordable
from skdp.privacy.composition import tightest_epsilon
from skdp.privacy.events import Neighbouring, PrivacyEvent, common_relation, flatten_event
from skdp.privacy.ledger import Entry, Ledger, create_ledger
from skdp.privacy.ledger_files import LedgerError, MissingLedgerError
from skdp.privacy.ledger_moves import found, move_ledger, repair, resolve

__all__ = ["BudgetAccountant", "BudgetExceededError", "Spent", "check_accountant", "spend"]

_TEMPORARY_NAME = "ledger.jsonl"


class Spent(NamedTuple):
    """What has been spent: an (epsilon, delta) guarantee for everything together.

    Attributes
    ----------
    epsilon, delta : float
    """

    epsilon: float
    delta: float


class BudgetAccountant:
    """One privacy budget for all fits of a program, or of a project over days.

    As a context manager it is charged by every fit of the package inside of the block, in any
    thread, process or meta-estimator; as the parameter `accountant` of an estimator, by the fits of
    this estimator. A fit inside of several blocks is charged to each of them. It is entered in the
    ledger *before* it reads a record, and refused with a :class:`BudgetExceededError` if all
    entries together would then cost more than the budget. A fit that fails afterwards has been paid
    for: what it computed may have been seen.

    The ledger is a file that all processes share. Accountants are neither copied nor cloned: copies
    and pickles are handles of the same ledger.

    Parameters
    ----------
    epsilon : float
        Budget in nats, > 0. Infinite: everything is recorded and nothing refused.
    delta : float, default=0.0
        In [0, 1). 0 allows pure releases only.
    neighbouring : {"replace_one", "add_remove"} or None, default=None
        The relation of all entries; None: that of the first one. Others are refused.
    path : str, path-like or None, default=None
        File of the ledger. If it exists, it goes on, and the budget must be the one it was made
        with. None: a temporary file that is removed when the process ends; see :meth:`save`.

    Attributes
    ----------
    epsilon, delta : float
    path : str
        The file of the ledger.

    See Also
    --------
    skdp.privacy.tightest_epsilon : What the entries cost together.

    Notes
    -----
    The total is the smallest that a proof of :func:`~skdp.privacy.tightest_epsilon` gives: exact
    for Gaussian and pure releases together; by convolution of privacy loss distributions for
    others, if dp-accounting is installed. It holds for a program whose releases' events do not
    depend on the records. What is fitted next may depend on earlier results, but with ``delta > 0``
    its price (epsilon, delta, method) may not: "What the total means" in docs/guide/budget.md.

    Examples
    --------
    >>> import numpy as np
    >>> import skdp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(1000, 2))
    >>> model = skdp.DPRidge(epsilon=1.0, data_norm=1.0, target_range=(-1, 1))
    >>> with skdp.BudgetAccountant(epsilon=1.2, delta=1e-6) as accountant:
    ...     _ = model.fit(X, X[:, 0])
    ...     try:
    ...         _ = model.fit(X, X[:, 1])
    ...     except skdp.BudgetExceededError:
    ...         print("too much")
    too much
    >>> round(accountant.total().epsilon, 6)
    1.0
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        neighbouring: Neighbouring | str | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        if epsilon != math.inf:
            PrivacyBudget(epsilon, delta)
        check_real("delta", delta, 0.0, 1.0, closed="left")
        self.epsilon, self.delta = float(epsilon), float(delta)
        relation = None if neighbouring is None else Neighbouring(neighbouring)
        self._blocks: list[tuple[str, int]] = []
        self._is_temporary = path is None
        self._path = _temporary_path() if path is None else os.path.abspath(path)
        with contextlib.suppress(FileExistsError):
            create_ledger(self._path, self.epsilon, self.delta, relation)
            return
        with self._ledger() as ledger:
            if (ledger.epsilon, ledger.delta) != (self.epsilon, self.delta):
                raise ValueError(
                    f"The ledger {self._path!r} was made for epsilon={ledger.epsilon:g}, "
                    f"delta={ledger.delta:g}; BudgetAccountant.load continues it."
                )
            if relation is not None and relation is not ledger.relation:
                made = "none" if ledger.relation is None else ledger.relation.value
                raise ValueError(
                    f"The ledger {self._path!r} was made for the relation {made}, not "
                    f"{relation.value}: leave neighbouring out, or make another ledger."
                )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BudgetAccountant:
        """Continue the ledger of a file, with the budget that it was made for."""
        with found(os.path.abspath(path)) as ledger:
            epsilon, delta = ledger.epsilon, ledger.delta
        return _handle(ledger.path, epsilon, delta, False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Move the ledger to a file, where this accountant and all its handles go on.

        If the process dies meanwhile, both paths lead to the ledger, and the call can be repeated.

        Raises
        ------
        FileExistsError
            If there is another file: an older ledger is never overwritten. This ledger then stays
            where it is.
        LedgerError
            If the ledger cannot be read.
        """
        path = os.path.abspath(path)
        move_ledger(self._path, path)
        self._path, self._is_temporary = path, False
        publish()

    @staticmethod
    def repair(path: str | os.PathLike[str]) -> bool:
        """Finish a file of a ledger that a process left unfinished when it died.

        An unfinished last line is removed, and the end of the file is marked: the fit that was to
        be paid for had not begun. A move whose former file is missing is ended: nothing must have
        been charged to that file after the move began. Do not use this for a file that was cut off
        by anything else, such as an interrupted copy: what was cut off had been spent.

        Returns
        -------
        bool
            Whether there was something to finish.

        Raises
        ------
        LedgerError
            If the file is no ledger, or one that was changed; it is then left as it is.
        """
        return repair(os.path.abspath(path))

    @property
    def path(self) -> str:
        return self._path

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All payments, in the order in which they were made."""
        with self._ledger() as ledger:
            return tuple(ledger.entries)

    @property
    def event(self) -> PrivacyEvent:
        """All entries as one event."""
        with self._ledger() as ledger:
            return ledger.event

    @property
    def neighbouring(self) -> Neighbouring | None:
        """The relation under which the total holds; None as long as nothing has named one."""
        with self._ledger() as ledger:
            return common_relation([ledger.event], ledger.relation)

    def total(self) -> Spent:
        """Compute the guarantee of all entries together.

        Returns
        -------
        Spent
            A named tuple ``(epsilon, delta)``, with delta that of the budget, or 0 if there is no
            entry.
        """
        event = self.event
        if not flatten_event(event):
            return Spent(0.0, 0.0)
        return Spent(tightest_epsilon(event, self.delta), self.delta)

    def spend(self, event: PrivacyEvent, label: str = "") -> None:
        """Enter an event, or refuse it. Estimators do this on their own.

        Parameters
        ----------
        event : PrivacyEvent
            What is about to be released, such as the ``event`` of a plan.
        label : str, optional
            For the ledger: who released it.

        Raises
        ------
        BudgetExceededError
            If the total would exceed the budget; the ledger is then unchanged.
        ValueError
            If the event has another relation than the ledger, or if no proof covers it.
        LedgerError
            If the ledger is missing, was cut off or changed, or cannot be opened or locked.
        """
        with self._ledger() as ledger:
            check_affordable(ledger, event, label)
            ledger.spend(event, label)

    def __enter__(self) -> BudgetAccountant:
        with self._ledger():  # it must be there
            name = uuid.uuid4().hex
        self._blocks.append((name, os.getpid()))
        where = platform.node(), os.getpid()
        open_block(name, lambda: Block(self._path, name, *where, self._is_temporary))
        return self

    def __exit__(self, *exception: object) -> None:
        name, process = self._blocks.pop()
        close_block(name)
        if process != os.getpid():  # a fork leaves its copy of the block: the block goes on
            return
        # if this fails, processes that were sent the block keep on paying
        with contextlib.suppress(LedgerError, OSError), self._ledger() as ledger:
            ledger.close(name)

    def _ledger(self) -> contextlib.AbstractContextManager[Ledger]:
        return found(self._path)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _handle, (self._path, self.epsilon, self.delta, self._is_temporary)

    def __copy__(self, memo: Any = None) -> BudgetAccountant:
        return self

    __deepcopy__ = __sklearn_clone__ = __copy__

    def __repr__(self) -> str:
        path = "" if self._is_temporary else f", path={self._path!r}"
        return f"BudgetAccountant(epsilon={self.epsilon:g}, delta={self.delta:g}{path})"


def check_accountant(accountant: object) -> None:
    """Refuse anything but None and a BudgetAccountant."""
    if not isinstance(accountant, BudgetAccountant | None):
        raise InvalidTypeError(
            f"accountant must be None or a BudgetAccountant, got {shown(accountant)}."
        )


def spend(
    event: PrivacyEvent,
    accountant: BudgetAccountant | None = None,
    *,
    label: str = "",
    carried: Iterable[Block] = (),
) -> None:
    """Pay for an event before a record is read.

    It is entered in the ledgers of `accountant` and of all with-blocks that are open, in each of
    them once; in none of them if one refuses.

    Parameters
    ----------
    event : PrivacyEvent
        The same for every data set of the public shape.
    accountant : BudgetAccountant or None
        The parameter of an estimator.
    label : str, optional
        Name of the entry.
    carried : iterable of Block
        The with-blocks that an estimator was sent to this process from.

    Raises
    ------
    BudgetExceededError, ValueError, LedgerError
        As for :meth:`BudgetAccountant.spend`.
    """
    check_accountant(accountant)
    charge(event, label, None if accountant is None else accountant.path, carried)


def _handle(path: str, epsilon: float, delta: float, is_temporary: bool) -> BudgetAccountant:
    """Make another handle of a ledger; it is looked at when it is used."""
    accountant = BudgetAccountant.__new__(BudgetAccountant)
    accountant.epsilon, accountant.delta = epsilon, delta
    accountant._path, accountant._is_temporary = path, is_temporary
    accountant._blocks = []
    return accountant


def _temporary_path() -> str:
    folder = tempfile.mkdtemp(prefix="skdp-")
    atexit.register(_remove, folder, os.getpid(), platform.node())
    return os.path.join(folder, _TEMPORARY_NAME)


def _remove(folder: str, process: int, host: str) -> None:
    """Remove a temporary ledger, in the process that made it: its children inherit the order."""
    if (os.getpid(), platform.node()) == (process, host):
        with contextlib.suppress(LedgerError, OSError):
            with contextlib.suppress(MissingLedgerError):
                # nobody could finish a move from it later
                resolve(os.path.join(folder, _TEMPORARY_NAME))
            shutil.rmtree(folder, ignore_errors=True)
