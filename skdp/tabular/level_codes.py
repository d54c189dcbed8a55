"""Positions of values among declared levels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from skdp._records import is_missing
from skdp.tabular.frames import level_text

#: Codes of values that are no level.
NONE, MISSING = -1, -2


def level_codes(values: np.ndarray, levels: Sequence[Any]) -> np.ndarray:
    """Return the position of each value among levels, or NONE or MISSING."""
    codes = _LevelCodes(levels)
    items = values.tolist()
    try:
        return np.fromiter(map(codes.__getitem__, items), dtype=np.intp, count=len(items))
    except TypeError:  # not hashable
        found = map(codes.of_text, items)
        return np.fromiter(found, dtype=np.intp, count=len(items))


class _LevelCodes(dict[Any, int]):
    """Positions of levels; what is not equal to one is compared as text, once for each value."""

    def __init__(self, levels: Sequence[Any]) -> None:
        super().__init__((level, k) for k, level in enumerate(levels))
        self._texts = {level_text(level): k for k, level in enumerate(levels)}
        padded = {t: str(int(t)) for t in self._texts if re.fullmatch(r"0\d+", t)}
        counts = Counter(padded.values())
        others = [(short, self._texts[t]) for t, short in padded.items() if counts[short] == 1]
        others += [(text, k) for k, level in enumerate(levels) for text in _texts_of_bool(level)]
        for text, k in others:
            self._texts.setdefault(text, k)

    def __missing__(self, value: Any) -> int:
        code = self.of_text(value)
        if code != MISSING:  # there are many NaN
            self[value] = code
        return code

    def of_text(self, value: Any) -> int:
        """Return the code of a value by its text alone."""
        if is_missing(value):
            return MISSING
        texts = (level_text(value), *_texts_of_bool(value))
        return next((self._texts[text] for text in texts if text in self._texts), NONE)


def _texts_of_bool(value: Any) -> tuple[str, ...]:
    """Return further texts of True and False: 1 and true, or 0 and false."""
    is_bool = isinstance(value, (bool, np.bool_))
    return (str(int(value)), str(bool(value)).lower()) if is_bool else ()
