"""
What does epsilon promise?
==========================

An attacker knows all records but one, and of that one that it is A or B, with equal odds. How often
is the best guess right that the release allows?
"""

# %%
# Three answers at each epsilon: for any release with delta = 0, for Gaussian noise at delta = 1e-6,
# and for a real fit that is attacked.
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from skdp import DPRidge
from skdp.privacy.gaussian_dp import gaussian_mu

epsilons = np.geomspace(0.1, 10, 50)
any_release = np.exp(epsilons) / (1 + np.exp(epsilons))
gaussian = norm.cdf([gaussian_mu(epsilon, 1e-6) / 2 for epsilon in epsilons])

# %%
# The attack: 200 records in one direction, the last one at either end. The guess is the likelier of
# the two, by coefficients of many fits on either table. The seeds are only for this page.
X = np.ones((200, 1)) / 2
tables = [np.append(np.zeros(199), end) for end in (-1.0, 1.0)]


def success(epsilon, n_fits=100):
    """Share of right guesses by the best threshold on the predicted value."""
    model = DPRidge(epsilon, data_norm=1.0, target_range=(-1, 1))
    values = [
        [model.set_params(random_state=seed).fit(X, y).predict(X[:1])[0] for seed in range(n_fits)]
        for y in tables
    ]
    cut = np.median(values)
    print(model.privacy_, end="\n\n")
    return 0.5 * (np.mean(values[0] < cut) + np.mean(values[1] > cut))


attacked = {epsilon: success(epsilon) for epsilon in (0.3, 1.0, 3.0, 10.0)}

# %%
# A chance of 73 % at epsilon 1 is what the definition allows. Gaussian noise at a small delta
# allows far less, and no attack comes above its line but by chance.
figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
axis.plot(epsilons, any_release, color="#d55e00", label="any release, delta = 0")
axis.plot(epsilons, gaussian, color="#0072b2", label="Gaussian noise, delta = 1e-6")
axis.plot(attacked.keys(), attacked.values(), "s", color="#009e73", label="attack on DPRidge")
axis.axhline(0.5, color="0.4", linewidth=1)
axis.set(xscale="log", xlabel="epsilon", ylabel="share of right guesses", ylim=(0.4, 1.02))
axis.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
axis.legend(loc="upper left")
plt.show()
