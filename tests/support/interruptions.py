"""Children that are killed at a chosen step of an action, and actions that must not wait for ever.

A step is a call of the operating system that concerns files, or a line of the modules that
write ledgers. The parent tries one step after the other until the action ends.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import skdp
from skdp.privacy import PureEvent

_CALLS = ("open", "read", "write", "fsync", "close", "link", "replace", "unlink", "ftruncate")
_LEDGER = str(Path(skdp.__file__).parent / "privacy" / "ledger")


def pure(epsilon: float = 0.25, relation: str = "replace_one") -> PureEvent:
    """Return the event of a payment."""
    return PureEvent(epsilon, relation)


def at_calls(number: int) -> None:
    """Kill this process before a call of the operating system."""
    count = itertools.count()

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object, **options: object) -> object:
            if next(count) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return wrapped

    for name in _CALLS:
        setattr(os, name, counted(getattr(os, name)))


def at_lines(number: int) -> None:
    """Kill this process before a line of the ledger's modules that it executes."""
    count = itertools.count()

    def trace(frame, event, argument):
        if not frame.f_code.co_filename.startswith(_LEDGER):
            return None
        if event == "line" and next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def kills(
    action: Callable[[], object],
    prepare: Callable[[], object],
    arm: Callable[[int], None] = at_calls,
    numbers: Iterable[int] | None = None,
) -> Iterator[int]:
    """Kill the action in a child before its first step, then before its second, ...

    `prepare` is called before each try. Yields the number of the step after each kill, in the
    parent, and ends with the first try that ends, or with the last of the given `numbers`.
    """
    for number in itertools.count() if numbers is None else numbers:
        prepare()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                arm(number)
                action()
                code = 0
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0, "the action failed"
            return
        yield number


def ends(action: Callable[[], object], patience: float = 60.0) -> object:
    """Return what an action returns or raises; fail if it never ends."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(action())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(patience)
    assert outcome, "the action does not end"
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
