"""What our algorithms are compared with, from other papers.

DP-SGD of Abadi et al. (2016), Algorithm 1 (`sgd`); DP-SGDA of Yang et al. (2022) (`sgda`); private
Frank-Wolfe of Talwar, Thakurta and Zhang (2015) (`frank_wolfe`); DP-SPIDER, Sto-SPIDER,
Ada-DP-SPIDER and PrivateDiff (`spider`).
"""

__all__: list[str] = []
