"""Tables of what is refused."""

from __future__ import annotations

from typing import Any

__all__ = ["one_at_a_time"]


def one_at_a_time(message: str | None = None, **values: list[Any]) -> list[tuple[Any, str]]:
    """Values of one parameter after the other, and a part of the message, which names it."""
    return [({key: value}, message or key) for key, each in values.items() for value in each]
