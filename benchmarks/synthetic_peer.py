"""Synthetic records by AIM or MST, of ``dpmm``.

    python synthetic_peer.py IN.npz OUT.npy NAME EPSILON DELTA SEED

It runs in an environment of its own with ``dpmm`` (Python 3.10 or 3.11) and imports nothing of
skdp. `IN.npz` holds ``codes`` (n, d) and ``sizes`` (d,); `OUT.npy` gets as many synthetic codes.
NAME is "aim" or "mst"; settings are the defaults with the domain declared and not compressed, one
process, and a model of at most 1 MB for AIM, which takes hours otherwise. The guarantee is for
add/remove neighbours.
"""

from __future__ import annotations

import sys

import numpy as np


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        import importlib.metadata

        print(importlib.metadata.version("dpmm"))
        return
    import pandas as pd
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM

    given, path, name = np.load(sys.argv[1]), sys.argv[2], sys.argv[3]
    epsilon, delta, seed = float(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])
    columns = [f"c{j}" for j in range(len(given["sizes"]))]
    table = pd.DataFrame(given["codes"], columns=columns)
    model = {"aim": AIMGM, "mst": MSTGM}[name](
        **({"max_model_size": 1} if name == "aim" else {}), epsilon=epsilon, delta=delta,
        compress=False, domain=dict(zip(columns, given["sizes"].tolist(), strict=True)),
        random_state=np.random.RandomState(seed), n_jobs=1,
    )  # fmt: skip
    model.fit(table)
    np.save(path, model.generate(len(table))[columns].to_numpy(dtype=np.int64))


if __name__ == "__main__":
    main()
