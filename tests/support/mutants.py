"""Defects that the tests of the privacy contract must find, planted one at a time.

``python tests/support/mutants.py`` plants each in a copy of the package, runs the tests that must
fail, and prints which failed. A mutant that survives, or whose text is not found, is an error.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["MUTANTS", "Mutant", "is_killed", "plant"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mutant:
    """A defect.

    Attributes
    ----------
    name : str
    path : str
        Of the file, below ``skdp``.
    old, new : str
        What is replaced (its first occurrence), and by what.
    tests : str
        Arguments of pytest: tests of which one at least must fail.
    """

    name: str
    path: str
    old: str
    new: str
    tests: str


_EXPONENTIAL = "tests/algorithms/exponential/test_mechanism.py -k"
_FAULTS = "tests/data/test_faults.py -k 'logistic and pass'"
_FITS = "tests/data/test_fits.py -k 'fit_is_that_in_memory and (logistic or squares)'"
_STATISTICS_SENT = "tests/contract/test_statistics.py -k 'newton or all_statistics'"
_DRAWS, _STATE = "tests/contract/test_draws.py", "tests/contract/test_state.py"
_STATISTICS = "tests/algorithms/tuning/test_released_statistics.py"
_OBJECTIVE = "tests/algorithms/objective/test_perturbation.py"
_PERSONS = "tests/linear_model/test_persons.py"
_WEIGHTED = "tests/problems/test_weighted_problems.py"
_PERSONS_OF_SOURCES = "tests/data/test_persons.py"
_THEOREMS = "tests/algorithms/objective/test_theorems.py"
_MOMENTS = "tests/algorithms/preparation/test_second_moments.py"
_WORST_GROUP = "tests/algorithms/worst_group -k 'by_its_sensitivity or unrelated'"
_RGDA = "tests/algorithms/recursive/test_rgda.py -k"
_NETWORK = "tests/robust/test_max_group_loss_mlp.py -k"
_RGDA_FITS = f"{_DRAWS} -k 'rgda and (costs or report)'"
_CHARGES, _MOVES = "tests/privacy/test_charges.py -k", "tests/privacy/test_ledger_moves.py -k"
_LEDGER = "tests/privacy/test_ledger.py -k"
_RARE = "tests/algorithms/descent/test_rare_records.py"
_COUNTS = "tests/algorithms/descent/test_counts.py"
_CENTERING = "tests/algorithms/preparation/test_centering.py -k"
_CLASSES = "tests/algorithms/worst_group/test_classes_as_groups.py"
_SPIDER = "tests/algorithms/baselines/test_spider.py"
_VERTICES = "tests/problems/test_vertices.py"
_VARIANCE_REDUCED = "tests/algorithms/mirror/test_variance_reduced.py"
_BOOSTED = "tests/algorithms/mirror/test_boosted.py"
_RANGES = "tests/preprocessing/test_quantile_ranges.py -k"
_SCORES = "tests/algorithms/statistics/test_noisy_score.py"
_FOLDS = "tests/model_selection/test_cross_validation.py -k"
_ROUNDS = "tests/algorithms/tuning/test_rounds.py"
_PREPARED = "tests/contract/test_prepared_fits.py"
_SOFTMAX = "tests/mechanisms/test_softmax.py -k"
_TABLES = "tests/tabular/test_table_encoder.py -k"
_LOSSES = "tests/problems/test_losses.py -k sign_where"

MUTANTS = (
    Mutant(
        "moved rows clipped as if they were not moved",
        "algorithms/preparation/attacked_rows.py",
        "limits = self.clip_norm / (norms[:, None] + self.moves.lengths)",
        "limits = self.clip_norm / np.stack([norms, norms], 1)",
        "tests/algorithms/preparation/test_attacked_rows.py -k 'no_record and odds'",
    ),
    Mutant(
        "moved rows of several classes clipped as if they were not moved",
        "algorithms/preparation/attacked_rows.py",
        "lengths = norms + moves.lengths.max(axis=1)[targets]",
        "lengths = norms.copy()",
        "tests/algorithms/preparation/test_attacked_rows.py -k 'no_record and classes'",
    ),
    Mutant(
        "moves left out of the length of a person's sum",
        "algorithms/preparation/attacked_rows.py",
        "        lengths += np.abs(of_moves) @ moves.lengths",
        "        lengths += 0.0",
        "tests/linear_model/test_persons.py -k 'no_release and attacked and steps and add'",
    ),
    Mutant(
        "means of groups over a private number of records",
        "problems/group_vertices.py",
        "size = batch.stop - batch.start if replaced else self.design.n_records",
        "size = batch.stop - batch.start if replaced or True else self.design.n_records",
        "tests/robust/test_group_mirror_descent.py -k as_far_apart",
    ),
    Mutant(
        "a tilt from which one record decides, for one record more",
        "problems/tilted.py",
        "most = math.log(max(1.0, constants.n_records - 1.0)) / apart",
        "most = math.log(max(1.0, 9.0 * constants.n_records)) / apart",
        "tests/problems/test_tilted.py -k names_the_tilt",
    ),
    Mutant(
        "errors of margins at ties of attacks forgotten",
        "algorithms/descent/steps.py",
        "bound + gradients.reach, gradients.steepness",
        "bound + gradients.reach, 0.0",
        "tests/algorithms/preparation/test_attacked_rows.py -k errors_of_margins",
    ),
    Mutant(
        "the length of a person's moves taken for a projection",
        "algorithms/descent/steps.py",
        "2.0 * moved if rows.of_persons and plan.attack else moved",
        "moved",
        "tests/algorithms/preparation/test_attacked_rows.py -k errors_of_margins",
    ),
    Mutant(
        "persons with several classes under attack",
        "algorithms/descent/noisy_descent.py",
        "objective.design.of_persons and objective.risk.loss.n_outputs > 1:",
        "objective.design.of_persons and objective.risk.loss.n_outputs > 99:",
        "tests/robust/test_adversarial_estimators.py -k several_classes_are_refused",
    ),
    Mutant(
        "gradients under attack that jump at a tie",
        "algorithms/preparation/attacked_rows.py",
        "raised = np.clip(0.5 + residuals.sum(axis=1) / width, 0.0, 1.0)",
        "raised = (residuals.sum(axis=1) > 0.0) + 0.0 * width",
        "tests/algorithms/preparation/test_attacked_rows.py -k jumps",
    ),
    Mutant(
        "a largest loss as smooth as its parts",
        "problems/declared.py",
        "            smoothness=loss_smoothness + tilt * lipschitz**2,",
        "            smoothness=loss_smoothness,",
        "tests/problems/test_declared.py -k near_the_largest",
    ),
    Mutant(
        "rows of tables that are longer than 1",
        "tabular/row_features.py",
        "long = np.flatnonzero(factors < 1.0)",
        "long = np.flatnonzero(factors < 0.5)",
        f"{_TABLES} 'norm_at_most_one or shortened'",
    ),
    Mutant(
        "rows of tables that are shortened without the error of their norms",
        "tabular/row_features.py",
        "slack = (width + 8) * _EPS",
        "slack = -4.0 * _EPS",
        f"{_TABLES} norm_at_most_one",
    ),
    Mutant(
        "features of tables by the mean of a column",
        "tabular/columns.py",
        "clipped = np.clip(found, float(self.low), float(self.high))",
        "clipped = np.clip(found - np.nanmean(found), float(self.low), float(self.high))",
        f"{_TABLES} does_not_depend",
    ),
    Mutant(
        "features of tables planned by the records under add/remove",
        "tabular/estimators.py",
        "n_records = n_samples if self.n_public is None else self.n_public",
        "n_records = n_samples",
        "tests/tabular/test_estimators.py -k nominal_size",
    ),
    Mutant(
        "features of tables planned by the first chunk of a source",
        "_sources.py",
        "return sum(sizes)",
        "return sizes[-1]",
        "tests/tabular/test_fits_on_sources.py -k chunks",
    ),
    Mutant(
        "declared pairs that a plan does not count",
        "tabular/feature_plan.py",
        "width += sum(n_entries",
        "width += 0 * sum(n_entries",
        "tests/tabular/test_feature_plan.py -k pairs",
    ),
    Mutant(
        "values of flags in an error",
        "tabular/columns.py",
        'holds other values than 0/1, no/yes and "',
        'holds {values[0]!r} {values[1]!r} and "',
        "tests/tabular/test_columns.py -k refused",
    ),
    Mutant(
        "integers of exact noise have an end",
        "mechanisms/partial_draws.py",
        "is_open[others] |= cuts[units[others]] == firsts[others]",
        "is_open[others] |= False",
        "tests/mechanisms/test_partial_draws.py -k first_bits_on_a_boundary",
    ),
    Mutant(
        "spherical noise enclosed without the unknown bits of its direction",
        "mechanisms/grid.py",
        "math.isqrt(square + 2 * total + d) + 1",
        "math.isqrt(square) + 1",
        "tests/mechanisms/test_grid.py -k whatever_the_further_bits",
    ),
    Mutant(
        "Gaussian noise halved",
        "mechanisms/additive.py",
        "return noise.add_normal(value, self.noise_scale)",
        "return noise.add_normal(value, 0.5 * self.noise_scale)",
        "tests/audit/test_methods.py -k 'come_near and Gaussian'",
    ),
    Mutant(
        "sensitivity of solutions without the factor 2",
        "problems/constants.py",
        "difference = self.gradient_diameter if replaced else self.lipschitz",
        "difference = self.lipschitz",
        "tests/audit/test_methods.py -k factor",
    ),
    Mutant(
        "intercept without a penalty",
        "problems/problem.py",
        "        return self.alpha * self._offset(w)",
        "        penalised = self.alpha * self._offset(w)\n"
        "        if getattr(getattr(self, 'records', None), 'intercept', 0.0):\n"
        "            penalised[-1] = 0.0\n"
        "        return penalised",
        "tests/audit/test_methods.py -k intercept",
    ),
    Mutant(
        "all fits without a seed have the same noise",
        "_estimator.py",
        "        return np.random.default_rng(), secure_noise()",
        "        return np.random.default_rng(), NoiseSource(np.random.default_rng(0).bytes)",
        "tests/audit/test_methods.py -k seed",
    ),
    Mutant(
        "the largest weight of a group is left out of the noise of gradients",
        "algorithms/descent/noisy_descent.py",
        "* self.clip_norm * self.largest_factor",
        "* self.clip_norm",
        _WORST_GROUP,
    ),
    Mutant(
        "losses of the groups are not clipped",
        "algorithms/worst_group/clipped_losses.py",
        "return np.minimum(losses / self.unit, self.largest) - self.centre",
        "return 10.0 * losses / self.unit - self.centre",
        _WORST_GROUP,
    ),
    Mutant(
        "sizes of the groups are used exactly",
        "algorithms/worst_group/looks.py",
        "shares, least = counts[:, 0] / n, max(least, 2.0 * scale / n)",
        "shares = rows.full_total(lambda block, _: np.bincount("
        "block.groups, minlength=self.objective.weights.n_groups)) / n",
        _WORST_GROUP,
    ),
    Mutant(
        "sums over groups have no noise",
        "algorithms/preparation/noisy_sums.py",
        "        noisy = mechanism.release(exact.ravel(), noise).reshape(exact.shape)\n",
        "        noisy = exact\n",
        _WORST_GROUP,
    ),
    Mutant(
        "sums over groups are noisy, and used exactly",
        "algorithms/preparation/noisy_sums.py",
        "return np.nan_to_num(noisy), mechanism.deviation(exact.size)",
        "return exact, mechanism.deviation(exact.size)",
        _WORST_GROUP,
    ),
    Mutant(
        "losses of groups of replaced records have the noise for added ones",
        "algorithms/worst_group/clipped_losses.py",
        "    return max(largest, math.sqrt(2.0) * one) if is_replaced else one\n",
        "    return one\n",
        f"{_WORST_GROUP[:-1]} or move_by_the_bound'",
    ),
    Mutant(
        "residuals are clipped on one side",
        "algorithms/preparation/centered_rows.py",
        "residuals = np.maximum(residuals, np.negative(limits, out=limits), out=limits)",
        "residuals = residuals",
        "tests/algorithms/descent/test_noisy_descent.py -k lemma_2_no_record",
    ),
    Mutant(
        "numeric losses of the groups are not clipped",
        "algorithms/worst_group/clipped_losses.py",
        "return np.minimum(losses / self.unit, self.largest) - self.centre",
        "return losses / self.unit - self.centre",
        f"{_WORST_GROUP[:-1]} or within_their_range'",
    ),
    Mutant(
        "marks of passes are not compared",
        "problems/chunked_records.py",
        "if (found.count, found.mark) != (count, mark):",
        "if found.count != count:",
        _FAULTS,
    ),
    Mutant(
        "numbers of records in passes are not compared",
        "problems/chunked_records.py",
        "if (found.count, found.mark) != (count, mark):",
        "if found.mark != mark:",
        "tests/problems/test_chunked_records.py",
    ),
    Mutant(
        "the sum of a pass is used before marks are compared",
        "problems/chunked_records.py",
        "        sums = self._accepted(task, count, mark)\n",
        "        sums = self._source.reduce(task, merged).sums\n",
        _FAULTS,
    ),
    Mutant(
        "sums over chunks have no rounding of their own",
        "problems/rounding.py",
        "_OF_CHUNKS = 8 * _FAN_IN",
        "_OF_CHUNKS = 0",
        "tests/problems/test_chunked_records.py -k additions",
    ),
    Mutant(
        "an error of reading is taken for one of the solver",
        "solvers/gate.py",
        "except (KeyboardInterrupt, DataError):",
        "except KeyboardInterrupt:",
        "tests/data/test_faults.py -k 'solves and middle'",
    ),
    *(
        Mutant(name, "solvers/gate.py", old, new, "tests/solvers -k 'bad_solvers or lbfgs_asks'")
        for name, old, new in (
            (
                "a gradient is taken for that of another point",
                "not np.array_equal(self._last[0], point)",
                "False",
            ),
            ("a solver writes to the gradient of its certificate", "gradient.copy()", "gradient"),
            (
                "a solver moves the point of the gradient of its certificate",
                "            point = w.copy()\n            return",
                "            point = w\n            return",
            ),
            (
                "a solver changes the problem of its certificate",
                "seen.keep(point, problem.gradient(point))",
                "seen.keep(point, type(private).gradient(private, point))",
            ),
            (
                "a certificate asks for a gradient once more",
                "elif solver.ends",
                "elif not solver.ends",
            ),
        )
    ),
    Mutant(
        "columns of chunks are not clipped to their ranges",
        "preprocessing/columns_of_sources.py",
        "to_unit_interval(validate_array(chunk.X), self.ranges)",
        "validate_array(chunk.X)",
        "tests/data/test_estimators.py -k private_scalers_and_ranges",
    ),
    Mutant(
        "records of a person may be in two chunks",
        "problems/surveys.py",
        "len(np.unique(persons)) < len(persons):",
        "len(np.unique(persons)) < 0:",
        f"{_PERSONS_OF_SOURCES} -k before_the_payment",
    ),
    Mutant(
        "labels of persons are those of records",
        "problems/chunked_records.py",
        "    return labels.of(first, stop)[codes]\n",
        "    return labels.of(first, first + n)\n",
        f"{_PERSONS_OF_SOURCES} -k in_memory",
    ),
    Mutant(
        "memory of a chunk is used again while it is held",
        "data/arrays.py",
        "weakref.finalize(part, self._spare.append, memory).atexit = False",
        "self._spare.append(memory)",
        "tests/data/test_sources.py -k used_again",
    ),
    Mutant(
        "records of a person in a chunk are units of their own",
        "problems/bounding.py",
        "records.of_persons(encoded.persons, self.max_records)",
        "records.of_persons(np.arange(len(encoded.persons)), self.max_records)",
        f"{_PERSONS} -k chunks_moves",
    ),
    Mutant(
        "places of persons begin anew in each chunk",
        "problems/chunked_records.py",
        "    return labels.of(first, stop)[codes]\n",
        "    return labels.of(0, stop - first)[codes]\n",
        f"{_PERSONS} -k chunks_moves",
    ),
    Mutant(
        "ids that are texts are hashed to one byte",
        "problems/marks.py",
        "digest_size=16, key=key",
        "digest_size=1, key=key",
        f"{_PERSONS} -k chunks_moves",
    ),
    Mutant(
        "a person of a chunk is divided between two parts",
        "algorithms/preparation/centered_chunks.py",
        "rows.total(self.statistic, 0) if self.by_person else",
        "rows.full_total(self.statistic) if self.by_person else",
        f"{_PERSONS_OF_SOURCES} -k parts",
    ),
    Mutant(
        "columns of persons of chunks weigh by their records",
        "preprocessing/columns_of_sources.py",
        "return encoded.X, encoded.persons",
        "return encoded.X, None",
        f"{_PERSONS_OF_SOURCES} -k columns_and_tables",
    ),
    Mutant(
        "features of tables are planned by the records of persons",
        "_sources.py",
        "return len(_united([source.reduce(PersonIds(MarkKey.drawn()), _united)]))",
        "return sum(sizes)",
        f"{_PERSONS_OF_SOURCES} -k features_are",
    ),
    Mutant(
        "persons in several row groups are counted several times",
        "_sources.py",
        "return np.unique(np.concatenate(",
        "return np.asarray(np.concatenate(",
        f"{_PERSONS_OF_SOURCES} -k features_are",
    ),
    Mutant(
        "weights in tables follow from the persons of a chunk",
        "synthetic/tables_of_sources.py",
        "records.of_persons(encoded.persons, self.n_persons)",
        "records.of_persons(encoded.persons, 2**20)",
        f"{_PERSONS_OF_SOURCES} -k columns_and_tables",
    ),
    Mutant(
        "marks do not see ids",
        "problems/bounding.py",
        "positions, self.weights, persons)",
        "positions, self.weights, None)",
        f"{_PERSONS_OF_SOURCES} -k change",
    ),
    Mutant(
        "a scaler leaves out the weights of a source",
        "problems/surveys.py",
        "is not None and name not in self.units:",
        "is not None and name not in ('user_ids', 'sample_weight'):",
        f"{_PERSONS_OF_SOURCES} -k is_refused",
    ),
    Mutant(
        "a merge writes to what it merges",
        "problems/chunked_records.py",
        "    return first + second\n",
        "    first += second\n    return first\n",
        "tests/data/test_fits.py -k 'other_engines and squares'",
    ),
    Mutant(
        "a step reads the records of two blocks",
        "problems/chunked_records.py",
        "self.labels.of(start, stop) == self.label)",
        "self.labels.of(start, stop) // 2 == self.label // 2)",
        _FITS,
    ),
    Mutant(
        "positions of labels are those in the chunk",
        "problems/chunked_records.py",
        "rows = np.flatnonzero(self.labels.of(start, stop) == self.label)",
        "rows = np.flatnonzero(self.labels.of(0, stop - start) == self.label)",
        _FITS,
    ),
    Mutant(
        "a task holds the source of the noise",
        "algorithms/preparation/centered_chunks.py",
        "            labels = SecretLabels(n_blocks, noise).for_readers()\n",
        "            labels = SecretLabels(n_blocks, noise).for_readers()\n"
        "            object.__setattr__(labels, 'noise', noise)\n",
        "tests/data/test_fits.py -k 'other_engines and squares'",
    ),
    Mutant(
        "marks do not see the lower half of a number of zeros and ones",
        "problems/marks.py",
        "return np.bitwise_xor(upper, bits, out=upper)",
        "return bits",
        "tests/problems/test_marks.py",
    ),
    Mutant(
        "a chunk is validated after the payment",
        "_model.py",
        "        survey = surveyor.survey(bounding)\n",
        "        self._spend(__import__('skdp').privacy.GaussianEvent(1.0))\n"
        "        survey = surveyor.survey(bounding)\n",
        "tests/data/test_faults.py -k before_the_payment",
    ),
    Mutant(
        "a statistic holds the records",
        "algorithms/worst_group/margin_fits.py",
        "self.ends, self.offsets, (first, last) = ends, offsets, ends\n",
        "self.ends, self.offsets, (first, last) = ends, offsets, ends\n"
        "        object.__setattr__(self.clipped, 'rows', rows)\n",
        _STATISTICS_SENT,
    ),
    Mutant(
        "a sum over records is of a closure",
        "algorithms/tuning/newton.py",
        "LogLossGradient(point=point), count",
        "lambda block: LogLossGradient(point=point)(block), count",
        _STATISTICS_SENT,
    ),
    Mutant(
        "vectors of the line of models are not shortened",
        "algorithms/worst_group/margin_fits.py",
        "return list(vectors / np.maximum(lengths, 1.0))",
        "return list(vectors)",
        f"{_WORST_GROUP[:-1]} or line_reach'",
    ),
    Mutant(
        "the step between models is found without noise",
        "algorithms/worst_group/margin_fits.py",
        "        step, shift = self.step(noisy, scale, sizes)\n",
        "        exact = rows.full_total(GroupTotals(len(sizes), self.terms()))\n"
        "        step, shift = self.step(exact, scale, sizes)\n",
        _WORST_GROUP,
    ),
    Mutant(
        "the line of models has the noise for added records",
        "algorithms/worst_group/look_shares.py",
        "        in_groups,\n        sensitivity=relation.n_changes,",
        "        in_groups,\n        sensitivity=1.0,",
        f"{_WORST_GROUP[:-1]} or line_reach'",
    ),
    Mutant(
        "the second plain model has the budget of the temperature too",
        "algorithms/worst_group/look_shares.py",
        "mu**2 * (shares.scale - share))",
        "mu**2 * shares.scale)",
        _WORST_GROUP,
    ),
    Mutant(
        "moments of replaced records have the noise for added ones",
        "algorithms/tuning/moments.py",
        "sensitivity = math.sqrt(neighbouring.n_changes) * bound",
        "sensitivity = bound",
        f"{_STATISTICS} -k 'takes_less_noise or moves_a_release'",
    ),
    Mutant(
        "statistics are divided by the number of records and not by the nominal one",
        "algorithms/tuning/moments.py",
        "        count = design.n_records\n",
        "        count = records.n_records\n",
        f"{_STATISTICS} -k 'moves_a_release or nominal or attained'",
    ),
    Mutant(
        "gradients are divided by the number of records and not by the nominal one",
        "algorithms/tuning/newton.py",
        "            count = self.design.n_records\n",
        "            count = data.n_records\n",
        f"{_STATISTICS} -k twice",
    ),
    Mutant(
        "all phases but the last draw a tenth of their noise",
        "algorithms/output/phased.py",
        "problem, phase.accuracy, phase.mechanism, step)",
        "problem, phase.accuracy, phase.mechanism if k + 1 == len(self.phases) else "
        "replace(phase.mechanism, sensitivity=0.1 * phase.mechanism.sensitivity), step)",
        f"{_DRAWS} -k phases",
    ),
    Mutant(
        "all phases of a saddle problem but the last draw a tenth of their noise",
        "algorithms/output/phased_saddle.py",
        "result = phase.run(",
        "result = (phase if k + 1 == len(self.phases) else replace(phase, mechanism=replace("
        "phase.mechanism, sensitivity=0.1 * phase.mechanism.sensitivity))).run(",
        f"{_DRAWS} -k max-group",
    ),
    Mutant(
        "noise of the kernel a tenth where the point is not the last",
        "algorithms/output/kernel.py",
        "    return problem.domain.project(point) if project else point",
        "    if problem.center is not None and problem.center.any():\n"
        "        point = solution.point + 0.1 * mechanism.draw(point.size, run.noise)\n"
        "    return problem.domain.project(point) if project else point",
        f"{_DRAWS} -k phases",
    ),
    Mutant(
        "noise of hypergradient queries sqrt(7) too small",
        "algorithms/tuning/hypergradient.py",
        "            released = query.mechanism.release(value, run.noise)",
        "            released = value + query.mechanism.draw(value.size, run.noise) / 7.0**0.5",
        f"{_DRAWS} -k hypergradient",
    ),
    Mutant(
        "every hypergradient query has the noise of a single one",
        "algorithms/tuning/hypergradient.py",
        "self.objective, alpha, self.splits, self.budget, self.query_share",
        "self.objective, alpha, self.splits, self.budget, self.tune_share",
        f"{_DRAWS} -k hypergradient",
    ),
    Mutant(
        "localised gradient descent solves with a seventh of its noise",
        "algorithms/bilevel/private_solvers.py",
        "found = dp_localized_gd(problem, run=run, **self._options(multiplier))",
        "found = dp_localized_gd(problem, run=run, **self._options(multiplier / 7.0))",
        f"{_DRAWS} -k minibatch",
    ),
    Mutant(
        "output perturbation in bilevel steps with half of its noise",
        "algorithms/bilevel/private_solvers.py",
        "problem, accuracy, mechanism, run, project=False",
        "problem, accuracy, GaussianMechanism(0.5 * sensitivity, multiplier), run, project=False",
        f"{_DRAWS} -k bilevel",
    ),
    Mutant(
        "sensitivities of scores halved",
        "algorithms/tuning/exponential.py",
        "        sensitivities, accuracies = np.array(planned).T",
        "        sensitivities, accuracies = np.array(planned).T * [[0.5], [1.0]]",
        "tests/contract/test_end_to_end.py -k choice",
    ),
    Mutant(
        "histogram and coefficients from the same bits",
        "algorithms/worst_group/phased_saddle.py",
        "            known = self.weighted(data.groups, run.noise)\n",
        "            import numpy as np\n\n            from skdp.mechanisms import NoiseSource\n\n"
        "            run.noise = NoiseSource(np.random.default_rng(7).bytes)\n"
        "            again = NoiseSource(np.random.default_rng(7).bytes)\n"
        "            known = self.weighted(data.groups, again)\n",
        f"{_DRAWS} -k bits",
    ),
    Mutant(
        "parts of bounded rows are not bounded",
        "problems/records.py",
        'for name in ("scale", "lengths", "targets", ',
        'part.scale = None\n        for name in ("lengths", "targets", ',
        f"{_DRAWS} -k phases",
    ),
    Mutant(
        "mean of the margins from rows without noise",
        "algorithms/tuning/newton.py",
        "        w, alpha = _fit(statistics, np.zeros(width), ",
        "        if data.intercept:\n"
        "            mean = data.materialise()[:, :-1].mean(axis=0)\n"
        "            statistics.margins.mean[:-1] = mean / unit\n"
        "        w, alpha = _fit(statistics, np.zeros(width), ",
        f"{_STATE} -k newton",
    ),
    Mutant(
        "phases stratified by private groups",
        "algorithms/worst_group/phased_saddle.py",
        "strata = data.groups if weights.public_groups else None",
        "strata = data.groups",
        f"{_DRAWS} -k max-group",
    ),
    Mutant(
        "weights without noise kept under a private name",
        "linear_model/base.py",
        "        return np.asarray(result.point).reshape(risk.loss.n_outputs, records.width)",
        "        self._raw = records.materialise().T @ records.targets\n"
        "        return np.asarray(result.point).reshape(risk.loss.n_outputs, records.width)",
        f"{_STATE} -k logistic",
    ),
    Mutant(
        "weights without noise kept in the plan",
        "model_selection/tuned_model.py",
        '            public |= {"alpha_bounds": [low, high],',
        '            public |= {"_found": float(records.materialise()[:, 0] @ records.targets),',
        f"{_STATE} -k hypergradient",
    ),
    Mutant(
        "an attribute of the records on adversarial models",
        "robust/attacked_model.py",
        "    def _check_parameters(self) -> None:",
        "    def _validated(self, X, y, **kwargs):\n"
        "        X, y = super()._validated(X, y, **kwargs)\n"
        "        self._long = int((np.linalg.norm(X, axis=1) > self.data_norm).sum())\n"
        "        return X, y\n\n"
        "    def _check_parameters(self) -> None:",
        f"{_STATE} -k adversarial",
    ),
    Mutant(
        "a warning with the number of clipped targets",
        "linear_model/regression.py",
        "                records: Any = units.of(self._records(X, encoder(y), groups))\n",
        "                records: Any = units.of(self._records(X, encoder(y), groups))\n"
        "                import warnings\n"
        '                warnings.warn(f"{int(((y < low) | (y > high)).sum())} were clipped.")\n',
        f"{_STATE} -k ridge",
    ),
    Mutant(
        "a warning with the size of the smallest group",
        "robust/grouped_model.py",
        "        groups = self._group_weights(records.groups, are_given, design)",
        "        groups = self._group_weights(records.groups, are_given, design)\n"
        '        warnings.warn(f"{np.bincount(records.groups).min()} in a group.")',
        f"{_STATE} -k max-group",
    ),
    Mutant(
        "a warning for long rows only",
        "_model.py",
        "        self.data_norm_ = self._norm_bound\n",
        "        self.data_norm_ = self._norm_bound\n"
        "        if abs(X).max() > 100 * self._norm_bound:\n"
        '            warnings.warn("rows were shortened.")\n',
        f"{_STATE} -k logistic",
    ),
    Mutant(
        "linear term of objective perturbation drawn with half of its noise",
        "algorithms/objective/perturbation.py",
        "np.zeros(size) + self.linear.draw(size, run.noise)",
        "np.zeros(size) + 0.5 * self.linear.draw(size, run.noise)",
        f"{_OBJECTIVE} -k minimises",
    ),
    Mutant(
        "result of objective perturbation projected onto a ball that follows from its noise",
        "algorithms/objective/perturbation.py",
        "self.accuracy, self.output, run, project=False)",
        "self.accuracy, self.output, run)",
        f"{_OBJECTIVE} -k projected",
    ),
    Mutant(
        "change of the Hessian left out of the cost of objective perturbation",
        "algorithms/objective/perturbation.py",
        "budget.epsilon - hessian_epsilon(loss, norm, penalty, hessian_rank(loss, design))",
        "budget.epsilon",
        f"{_THEOREMS} -k 'planned_noise or pointwise'",
    ),
    Mutant(
        "Hessian of a record for that of a person",
        "algorithms/objective/theorems.py",
        "    return loss.n_outputs * (design.width if design.of_persons else 1)",
        "    return loss.n_outputs",
        f"{_THEOREMS} -k determinants_of_persons",
    ),
    Mutant(
        "gradient of a record for that of a person in objective perturbation",
        "algorithms/objective/theorems.py",
        "(loss, epsilon, delta, neighbouring.n_changes)",
        "(loss, epsilon, delta, 1.0)",
        f"{_THEOREMS} -k 'noise_for_persons or lemma_g'",
    ),
    Mutant(
        "weights left out of what all coefficients of an attack get",
        "problems/adversarial.py",
        "push = float(weighted(shift * derivative).sum()) / n",
        "push = float((shift * derivative).mean())",
        "tests/problems/test_weighted_problems.py -k counts_once",
    ),
    Mutant(
        "weights left out of the sum of tilted weights",
        "problems/tilted.py",
        "weights /= weighted(weights).sum()",
        "weights /= weights.sum()",
        "tests/problems/test_weighted_problems.py -k counts_once",
    ),
    Mutant(
        "tilted loss of records that may weigh nothing",
        "problems/tilted.py",
        "    if is_slack:",
        "    if False:",
        "tests/problems/test_weighted_problems.py -k tilt",
    ),
    Mutant(
        "gradient diameter of weights that may be 0",
        "problems/constants.py",
        "        diameter = maximum(diameter, lipschitz)",
        "        diameter = 1.0 * diameter",
        "tests/problems/test_weighted_problems.py -k losses_of_others",
    ),
    Mutant(
        "range of a loss whose weight may be 0",
        "algorithms/tuning/exponential.py",
        "moved = largest if objective.design.is_slack else loss.value_range(U, radius)",
        "moved = loss.value_range(U, radius)",
        "tests/algorithms/tuning/test_exponential.py -k whole_loss",
    ),
    Mutant(
        "persons: parts of records end inside of a person",
        "algorithms/preparation/centered_rows.py",
        "ends = np.unique(starts[np.searchsorted(starts, ends)]).tolist()",
        "pass",
        "tests/linear_model/test_persons.py -k parts_of_records",
    ),
    Mutant(
        "persons: all sums have parts of any length",
        "algorithms/preparation/centered_rows.py",
        "self._kept(self._slices(records.n_records))",
        "self._kept(self._of_persons(np.arange(records.n_records)))",
        "tests/linear_model/test_persons.py -k parts_of_records",
    ),
    *(
        Mutant(f"persons: {name}", path, old, new, tests)
        for name, path, old, new, tests in (
            (
                "weight 1 for each record",
                "problems/records.py",
                "shares = counted / np.maximum(numbers, max_records or 1)[persons]",
                "shares = counted",
                f"{_PERSONS} -k 'no_release and squares'",
            ),
            (
                "weights of the mean number of records",
                "problems/records.py",
                "shares = counted / np.maximum(numbers, max_records or 1)[persons]",
                "shares = counted / max(numbers.mean(), max_records or 1)",
                f"{_PERSONS} -k 'no_release and squares'",
            ),
            (
                "the number of records for that of persons",
                "problems/records.py",
                "return self.n_records if self.persons is None else len(self.starts) - 1",
                "return self.n_records",
                f"{_PERSONS} -k 'no_release and squares'",
            ),
            (
                "the total of weights without its noise",
                "algorithms/preparation/centering.py",
                "        n = self._n_records(float(sums[-1]), scale)",
                "        sums[-1:] = records.total(statistic)[-1:]\n"
                "        n = self._n_records(float(sums[-1]), scale)",
                f"{_PERSONS} -k 'no_weight_below_1 and squares'",
            ),
            (
                "a label for each record",
                "algorithms/preparation/centered_rows.py",
                "map(records.records_of, labels.members(records.n_units))",
                "iter(labels.members(records.n_records))",
                f"{_PERSONS} -k blocks_have",
            ),
            (
                "gradients of persons that are not clipped",
                "algorithms/preparation/centered_rows.py",
                "factors = np.minimum(1.0, self.clip_norm / np.sqrt(np.maximum(squares, 1e-300)))",
                "factors = np.ones(len(squares))",
                f"{_PERSONS} -k 'no_release and squares'",
            ),
            (
                "no rounding in the sum of a person",
                "algorithms/preparation/centered_rows.py",
                "return sums + two_norms(d, rows.cancellation + is_attacked) * limit",
                "return 0.0 * sums",
                f"{_PERSONS} -k rounding_of_a_person",
            ),
            (
                "no rounding of persons in a step",
                "algorithms/descent/steps.py",
                "norms = person_rounding(rows, clip, bool(plan.attack))",
                "pass",
                f"{_PERSONS} -k rounding_of_every_person",
            ),
            (
                "no factors of groups in the rounding of a step",
                "algorithms/descent/steps.py",
                "((bound + turn) * margins + norms) * largest",
                "((bound + turn) * margins + norms)",
                f"{_PERSONS} -k rounding_of_every_person",
            ),
            (
                "a part of the records of everybody to start a solver with",
                "problems/finite_sum.py",
                "if self.of_persons:\n            part",
                "if False:\n            part",
                f"{_WEIGHTED} -k thinned",
            ),
            (
                "batches of solvers without weights",
                "problems/finite_sum.py",
                "return self.block.pull_back(residuals).ravel()",
                "return replace(self.block, shares=None).pull_back(residuals).ravel()",
                f"{_WEIGHTED} -k need_no_help",
            ),
            (
                "records sampled in place of persons",
                "algorithms/bilevel/localized_descent.py",
                "chosen = problem.records.records_of(units)",
                "chosen = units",
                f"{_WEIGHTED} -k in_a_batch",
            ),
            (
                "weighted tables divided by the number of records",
                "algorithms/queries/adaptive_measurements.py",
                "if not self.is_slack:",
                "if True:",
                "tests/synthetic/test_persons.py -k weighted_tables",
            ),
            (
                "weighted records of tables that count in full for their persons",
                "problems/categorical.py",
                "np.maximum(np.bincount(persons, weights > 0.0), 1.0)[persons]",
                "np.ones(len(persons))",
                "tests/synthetic/test_persons.py -k no_weights_move",
            ),
            (
                "records of tables without weight that count for their persons",
                "problems/categorical.py",
                "np.bincount(persons, weights > 0.0)",
                "np.bincount(persons)",
                "tests/synthetic/test_persons.py -k no_weights_move",
            ),
            (
                "roles of records in a bilevel problem of persons",
                "problems/bilevel.py",
                "self._train = self._records.take(self._records.records_of(even))",
                "self._train = self._records.take(slice(None, None, 2))",
                f"{_WEIGHTED} -k roles",
            ),
            (
                "weights of a bilevel problem by record",
                "problems/bilevel.py",
                "np.repeat(weights, np.diff(records.starts))",
                "np.resize(weights, records.n_records)",
                f"{_WEIGHTED} -k roles",
            ),
            (
                "masked ids are values",
                "_units.py",
                "np.ma.is_masked(user_ids) or",
                "",
                f"{_PERSONS} -k ids_that_are_refused",
            ),
            (
                "ids as doubles",
                "_units.py",
                "ids = ids.astype(np.int64)",
                "ids = ids.astype(float).astype(np.int64)",
                f"{_PERSONS} -k 64_bits",
            ),
            (
                "a part of a pipeline without ids",
                "privacy/pipeline_steps.py",
                "            yield from _fitted_parts(part)",
                "            pass",
                "tests/preprocessing/test_persons.py -k wherever",
            ),
            (
                "one of equal steps of a pipeline without ids",
                "privacy/pipeline_steps.py",
                'positions[id(running)] = frame.f_locals.get("step_idx", _UNKNOWN)',
                "pass",
                "tests/preprocessing/test_persons.py -k equal_steps",
            ),
            (
                "the report counts records",
                "_model.py",
                '"risk": repr(risk),',
                '"risk": repr(risk), "n": records.n_records,',
                f"{_PERSONS} -k 'no_release and squares'",
            ),
            (
                "a warning that tells the number of records",
                "_model.py",
                "size = self._public_size(records.n_units) or records.n_units\n        radius",
                "size = records.n_records\n        radius",
                f"{_PERSONS} -k nothing_tells",
            ),
            (
                "a limit on records that leaves small weights out",
                "problems/records.py",
                "other.is_slack = part.is_slack or max_records is not None",
                "other.is_slack = part.is_slack",
                "tests/linear_model/test_weights.py -k few_records",
            ),
            (
                "costs that do not count in the weights of persons",
                "problems/records.py",
                "weights = weights if self.shares is None else weights * self.shares",
                "weights = weights",
                f"{_PERSONS} -k 'no_release and limited'",
            ),
            (
                "shares of the classes without noise",
                "algorithms/descent/noisy_descent.py",
                "            shares = class_shares(loss, centering.offsets)",
                "            one = float(data.weighted(data.targets).mean())\n"
                "            shares = np.array([1.0 - one, one])",
                f"{_PERSONS} -k 'no_release and two'",
            ),
            (
                "moments of columns that count records",
                "algorithms/statistics/columns.py",
                "1.0 / numbers if self.unit is None",
                "1.0 / np.ones(len(numbers)) if self.unit is None",
                "tests/preprocessing/test_persons.py -k moments",
            ),
            (
                "ranks that count records",
                "algorithms/statistics/columns.py",
                "else self.unit // numbers",
                "else np.full(len(numbers), self.unit)",
                "tests/preprocessing/test_persons.py -k rank",
            ),
            (
                "tables that count records",
                "problems/categorical.py",
                "np.bincount(cells, self.shares, universe_size(shape))",
                "np.bincount(cells, None, universe_size(shape))",
                "tests/synthetic/test_persons.py -k sum_further",
            ),
            (
                "weights in a table by the order of the records",
                "problems/categorical.py",
                "order = np.lexsort((*self.codes.T, persons))",
                'order = np.argsort(persons, kind="stable")',
                "tests/synthetic/test_persons.py -k order_of",
            ),
            (
                "folds of records",
                "model_selection/cross_validation.py",
                "folds = _folds(cv, n_units, noise)",
                "folds = _folds(cv, len(y), noise)",
                "tests/model_selection/test_person_folds.py -k one_test_set",
            ),
            (
                "scores that count records",
                "algorithms/statistics/noisy_score.py",
                "weights = shared_units(persons[order], unit)",
                "weights = np.full(len(persons), unit)",
                "tests/model_selection/test_person_folds.py -k moves_a_score",
            ),
            (
                "an area with pairs within a person",
                "algorithms/statistics/noisy_score.py",
                "doubled -= _doubled(values, labels, weights, persons)",
                "pass",
                "tests/model_selection/test_person_folds.py -k weigh_1_in",
            ),
            (
                "weights of scores that follow from the order of the table",
                "algorithms/statistics/noisy_score.py",
                "np.lexsort((values, persons) if labels is None else (labels, values, persons))",
                "np.argsort(persons, kind='stable')",
                "tests/model_selection/test_person_folds.py -k weigh_1_in",
            ),
            (
                "fits of records in a search for persons",
                "model_selection/search.py",
                "rehearse(model, fits, lambda: rehearsed().paying(), must_pay=_private_parts)",
                "pass",
                "tests/model_selection/test_person_folds.py -k search_holds",
            ),
            (
                "steps of a pipeline without ids",
                "privacy/accounted.py",
                "refuse_mixed_units(type(self), event.neighbouring.unit)",
                "pass",
                "tests/preprocessing/test_persons.py -k without_a_ledger",
            ),
            (
                "proportions of groups by rounded weights as if they were counts",
                "algorithms/worst_group/phased_saddle.py",
                "if design.is_weighted:",
                "if False:",
                "tests/robust/test_group_persons.py -k proportions_of_weights",
            ),
            (
                "groups of weighted records that move by the difference of full ones",
                "problems/max_group_loss.py",
                "if design.is_slack:",
                "if False:",
                f"{_WEIGHTED} -k losses_of_others",
            ),
            (
                "weights clipped at numbers of records",
                "problems/max_group_loss.py",
                "records.total(lambda block: block.count(block.groups, size))",
                "np.bincount(records.groups, minlength=size)",
                "tests/robust/test_group_persons.py -k equal_persons",
            ),
            (
                "weights clipped at rounded sizes as if they were counts",
                "problems/max_group_loss.py",
                "if weights.clipped and design.is_weighted:",
                "if False:",
                "tests/problems/test_group_sensitivity.py -k rounding_of_the_sizes",
            ),
            (
                "weights clipped without the gradients of the group",
                "problems/max_group_loss.py",
                "moved = max(gradient_diameter, lipschitz)",
                "moved = lipschitz",
                "tests/problems/test_group_sensitivity.py -k clipped_weights_of_persons",
            ),
            (
                "public sizes of groups",
                "robust/grouped_model.py",
                'self._mode == "public" and (has_persons or has_weights)',
                "False",
                "tests/robust/test_group_persons.py -k no_proof",
            ),
            (
                "saddle: losses of a person's records count whole",
                "problems/max_group_loss.py",
                "np.bincount(block.groups, block.weighted(values), self.weights.n_groups)",
                "np.bincount(block.groups, values, self.weights.n_groups)",
                "tests/robust/test_group_persons.py -k saddle_point",
            ),
            (
                "saddle: proportions that count records",
                "algorithms/worst_group/phased_saddle.py",
                "block.count(block.groups, size))",
                "block.count(block.groups, size) * data.n_records / data.n_units)",
                "tests/robust/test_group_persons.py -k saddle_point",
            ),
            (
                "weighted stages: factors above 1",
                "algorithms/output/prepared.py",
                "factors / largest",
                "factors",
                "tests/algorithms/worst_group/test_weighted_stages.py -k by_its_sensitivity",
            ),
            (
                "sizes of groups that count records",
                "algorithms/worst_group/group_sums.py",
                "np.bincount(block.groups, block.weighted(entry), minlength=self.n_groups)",
                "np.bincount(block.groups, entry, minlength=self.n_groups)",
                f"{_PERSONS} -k 'no_release and groups'",
            ),
        )
    ),
    Mutant(
        "squares of targets without weights in second moments",
        "algorithms/tuning/moments.py",
        "sums[p, p] = scaled @ block.weighted(scaled)",
        "sums[p, p] = scaled @ scaled",
        f"{_PERSONS} -k 'no_release and statistics'",
    ),
    Mutant(
        "folds of records in place of persons",
        "algorithms/tuning/sufficient_statistics.py",
        "parts_of_data = folds(data.n_units,",
        "parts_of_data = folds(data.n_records,",
        f"{_PERSONS} -k 'no_release and folds'",
    ),
    Mutant(
        "constants of prepared rows without weights",
        "algorithms/preparation/prepared_records.py",
        "self.affine.constant * self.inner.sum(residuals)",
        "self.affine.constant * residuals.sum(axis=0)",
        f"{_PERSONS} -k 'no_release and (prepared or rounds)'",
    ),
    Mutant(
        "phases of records in place of persons",
        "algorithms/output/phased.py",
        "assign_blocks(run.noise, data.n_units, self.block_sizes)",
        "assign_blocks(run.noise, data.n_records, self.block_sizes)",
        f"{_PERSONS} -k phases",
    ),
    Mutant(
        "records for persons in the density of a draw",
        "algorithms/exponential/mechanism.py",
        "return self.design.n_records * self.epsilon / self.oscillation",
        "return 4.0 * self.design.n_records * self.epsilon / self.oscillation",
        f"{_PERSONS} -k densities",
    ),
    Mutant(
        "mirror descent on the first records in place of persons",
        "problems/vertices.py",
        "        if self.records.persons is None:\n            return batch",
        "        if True:\n            return batch",
        f"{_PERSONS} -k mirror",
    ),
    Mutant(
        "sampler without weights",
        "algorithms/exponential/sampling.py",
        "block.weighted(values).sum(axis=0)",
        "values.sum(axis=0)",
        "tests/algorithms/exponential/test_mechanism.py -k counts_a_person",
    ),
    Mutant(
        "records for persons in a mean of losses",
        "problems/finite_sum.py",
        "records.n_units if n_public is None",
        "records.n_records if n_public is None",
        f"{_PERSONS} -k objective",
    ),
    Mutant(
        "size of the data in the objective under add/remove",
        "algorithms/objective/perturbation.py",
        "            n_public=self.design.n_records if nominal else None,",
        "            n_public=records.n_records if nominal else None,",
        f"{_OBJECTIVE} -k reference_minimisers",
    ),
    Mutant(
        "size of the second moments of long rows from their trace without noise",
        "algorithms/preparation/second_moments.py",
        "        factor = self._long_rows(rows, moments, 0.5)",
        "        exact = rows.products(rows.full_total(ShortenedMoments()))\n"
        "        factor = self._long_rows(rows, exact / self.sum.design.n_records, 0.5)",
        f"{_MOMENTS} -k 'each_draw and full'",
    ),
    Mutant(
        "second moments of centered rows clipped with the norms of the rows themselves",
        "algorithms/preparation/second_moments.py",
        "return block.gram(1.0 / np.maximum(norms, 1.0) ** 2)",
        "return block.gram(1.0 / np.maximum(block.norms(), 1.0) ** 2)",
        f"{_MOMENTS} -k 'each_draw and full'",
    ),
    Mutant(
        "size of accelerated steps from moments without noise",
        "algorithms/descent/noisy_descent.py",
        "rate=plan.rate / self.moments.largest(rows, noise))",
        "rate=plan.rate / self.moments.largest(rows, noise))\n"
        "            exact = float(rows.norms[0][0].sum())\n"
        "            plan = replace(plan, rate=plan.rate * (1.0 + 1e-6 * exact))",
        f"{_MOMENTS} -k 'each_draw and projected'",
    ),
    Mutant(
        "concentration of the exponential mechanism doubled",
        "algorithms/exponential/mechanism.py",
        "                concentration=self.concentration,\n",
        "                concentration=2.0 * self.concentration,\n",
        f"{_DRAWS} -k exponential",
    ),
    Mutant(
        "grid of the exponential mechanism finer than its narrowest density",
        "algorithms/exponential/mechanism.py",
        "width = min(max(1.0 / (s * slope),",
        "width = min(min(1.0 / (s * slope),",
        f"{_EXPONENTIAL} coarse",
    ),
    Mutant(
        "points of the exponential mechanism rounded to the nearest",
        "algorithms/exponential/mechanism.py",
        "np.trunc(point / self.step)",
        "np.rint(point / self.step)",
        f"{_EXPONENTIAL} cut_off",
    ),
    Mutant(
        "proposals of the exponential mechanism too narrow",
        "algorithms/exponential/sampling.py",
        "1.0 / np.sqrt(s * precision)",
        "0.7 / np.sqrt(s * precision)",
        "tests/contract/test_end_to_end.py -k density",
    ),
    Mutant(
        "rgda: differences of gradients are not clipped",
        "problems/minimax.py",
        "return clip_rows(vectors, limit).sum(axis=0)",
        "return (vectors if anchor else clip_rows(vectors, limit)).sum(axis=0)",
        f"{_RGDA} 'one_record or is_clipped'",
    ),
    Mutant(
        "rgda: differences of a network's gradients are not clipped",
        "problems/group_network.py",
        "scale = clip_factors(np.hypot(size, bound), limit)[:, None]",
        "scale = np.ones((len(size), 1))",
        f"{_NETWORK} one_record",
    ),
    Mutant(
        "rgda: the norm of a network's gradient leaves out the second layer",
        "problems/group_network.py",
        "            if features is not None:\n                square",
        "            if features is None:\n                square",
        f"{_NETWORK} one_record",
    ),
    Mutant(
        "rgda: losses of the groups are not clipped",
        "problems/group_network.py",
        "np.clip(np.nan_to_num(values, nan=0.0), least, limit)",
        "np.nan_to_num(values, nan=0.0)",
        f"{_NETWORK} one_record",
    ),
    Mutant(
        "rgda: each block of a query has the noise of the whole query",
        "algorithms/recursive/oracle.py",
        'share = self.share_y if block == "y" else 1.0 - self.share_y',
        "share = 1.0",
        f"{_RGDA} full_batches",
    ),
    Mutant(
        "rgda: noise has the scale of add/remove neighbours",
        "algorithms/recursive/rgda.py",
        "sensitivity = relation.n_changes",
        "sensitivity = 1.0",
        _RGDA_FITS,
    ),
    Mutant(
        "rgda: batches are larger than the rate that is paid for",
        "algorithms/recursive/oracle.py",
        "self._problem.n_records, mechanism.sampling_rate, self._noise",
        "self._problem.n_records, min(1.0, 2.0 * mechanism.sampling_rate), self._noise",
        f"{_RGDA} batches_are",
    ),
    Mutant(
        "rgda: sums are divided by the realised batch",
        "algorithms/recursive/oracle.py",
        "noisy / (mechanism.sampling_rate * self._ledger.n_public)",
        "noisy / max(1, problem.n_records if self._batch is None else len(self._batch))",
        f"{_RGDA} batches_are",
    ),
    Mutant(
        "rgda: inner steps are not paid for",
        "algorithms/recursive/rgda.py",
        "counts[0] + counts[1] / ratio**2",
        "counts[0] + counts[1] / ratio**2 * 0.0",
        f"{_RGDA} full_batches",
    ),
    Mutant(
        "rgda: the oracle answers more queries than the ledger has",
        "algorithms/recursive/oracle.py",
        "if self.counts[kind] >= mechanism.n_steps:",
        "if self.counts[kind] > mechanism.n_steps:",
        f"{_RGDA} oracle_counts",
    ),
    Mutant(
        "rgda: a change in x alone has no noise",
        "algorithms/recursive/oracle.py",
        'float(np.hypot(x, 0.0 if block == "y" else y))',
        "float(y)",
        f"{_RGDA} one_record",
    ),
    Mutant(
        "rgda: noise does not grow with the weights of the groups",
        "algorithms/recursive/oracle.py",
        "GaussianMechanism(sensitivity * clip, multiplier)",
        "GaussianMechanism(sensitivity * min(clip, self._ledger.clip), multiplier)",
        _RGDA_FITS,
    ),
    Mutant(
        "rgda: gradients are clipped before their group's weight",
        "problems/group_network.py",
        "scale = clip_factors(np.sqrt(square), limit)[:, None]",
        "scale = (clip_factors(np.sqrt(square) / self.largest_weight('x', point), limit)[:, None])",
        f"{_NETWORK} one_record",
    ),
    Mutant(
        "rgda: rounding is that of bounded derivatives for all losses",
        "problems/group_network.py",
        "return bound if self.loss.target_bound else max(_DERIVATIVE, bound)",
        "return _DERIVATIVE",
        f"{_NETWORK} 'derivatives or rounding'",
    ),
    Mutant(
        "rgda: losses of private groups have the noise of public ones",
        "problems/group_network.py",
        "return 1.0 if self.has_public_groups else math.sqrt(2.0) * ROUNDING_SLACK",
        "return 1.0",
        f"{_NETWORK} one_record",
    ),
    Mutant(
        "rgda: Poisson samples have the noise of all records",
        "algorithms/recursive/oracle.py",
        "if mechanism.sampling_rate == 1.0:",
        "if mechanism.sampling_rate:",
        f"{_RGDA} diameter",
    ),
    Mutant(
        "rgda: a share of the budget leaves the noise of differences as it is",
        "algorithms/recursive/oracle.py",
        "return replace(self, refresh=refresh, increment=increment)",
        "return replace(self, refresh=refresh)",
        f"{_RGDA} share_of_a_ledger",
    ),
    Mutant(
        "rgda: empty groups are named by a share without noise",
        "algorithms/worst_group/network.py",
        "return positive_shares(noisy, least)",
        "return positive_shares(np.where(np.isin(range(len(noisy)), groups), noisy, 0.0), least)",
        f"{_NETWORK} empty_groups",
    ),
    Mutant(
        "rgda: proportions have the noise for one count",
        "algorithms/worst_group/network.py",
        "proportions_sensitivity(design.n_records)",
        "proportions_sensitivity(design.n_records) / math.sqrt(2.0)",
        _RGDA_FITS,
    ),
    Mutant(
        "rgda: proportions are not paid for by the steps",
        "algorithms/worst_group/network.py",
        "rgda.ledger.with_less(1.0 - share)",
        "rgda.ledger",
        f"{_NETWORK} undeclared",
    ),
    Mutant(
        "rgda: proportions are used exactly",
        "algorithms/worst_group/group_plan.py",
        "return self.sizes.release(groups, noise)",
        "return np.bincount(groups, minlength=self.objective.weights.n_groups) / len(groups)",
        f"{_NETWORK} undeclared",
    ),
    Mutant(
        "ledger: processes share its lock",
        "privacy/ledger_files.py",
        "fcntl.flock(descriptor, fcntl.LOCK_EX)",
        "fcntl.flock(descriptor, fcntl.LOCK_SH)",
        f"{_CHARGES} nobody_else_reads",
    ),
    Mutant(
        "ledger: locks are taken in the order in which ledgers are named",
        "privacy/charges.py",
        "for key in sorted(payers):",
        "for key in payers:",
        f"{_CHARGES} one_order",
    ),
    Mutant(
        "ledger: one of several is charged though another refuses",
        "privacy/charges.py",
        "            check_affordable(ledger, due, label)\n"
        "        for ledger, (due, note) in zip(ledgers, dues, strict=True):\n",
        "            check_affordable(ledger, due, label)\n            note = _\n",
        f"{_CHARGES} one_that_refuses",
    ),
    Mutant(
        "ledger: a missing temporary ledger is ignored",
        "privacy/charges.py",
        "if block.is_gone:",
        "if block.is_temporary:",
        f"{_CHARGES} MissingLedgers",
    ),
    Mutant(
        "ledger: a payment goes to a file that has lost its name",
        "privacy/ledger_files.py",
        "                if _is_at(path, descriptor, wanted):\n",
        "                if True:\n",
        f"{_CHARGES} WhileWaiting",
    ),
    Mutant(
        "ledger: a copy can be spent from before the move is announced",
        "privacy/ledger.py",
        "return lines + _end(lines, copied=self.path)",
        "return lines + _end(lines)",
        f"{_MOVES} 'every_step or every_call or copy_leads_back'",
    ),
    Mutant(
        "ledger: a move is announced before the new file is there",
        "privacy/ledger_moves.py",
        "    create_file(new, ledger.copy())\n"
        "    before = ledger.file.read()\n"
        "    try:\n"
        "        ledger.move(new)\n",
        "    copy = ledger.copy()\n"
        "    before = ledger.file.read()\n"
        "    try:\n"
        "        ledger.move(new)\n"
        "        create_file(new, copy)\n",
        f"{_MOVES} 'every_step or every_call or one_wins'",
    ),
    Mutant(
        "ledger: a move to a file that is there replaces it",
        "privacy/ledger_files.py",
        "return os.link(draft, path)",
        "return os.rename(draft, path)",
        f"{_MOVES} one_wins",
    ),
    Mutant(
        "ledger: a payment is not on the disk",
        "privacy/ledger_files.py",
        "            self._write(start, data)\n            os.fsync(self.descriptor)\n",
        "            self._write(start, data)\n",
        f"{_LEDGER} on_the_disk",
    ),
    Mutant(
        "ledger: a new file is not on the disk when it gets its name",
        "privacy/ledger_files.py",
        "            os.fsync(file.fileno())\n",
        "",
        f"{_MOVES} on_the_disk",
    ),
    Mutant(
        "ledger: the name of a new file is not on the disk when it is announced",
        "privacy/ledger_files.py",
        "            os.fsync(directory)\n",
        "            pass\n",
        f"{_MOVES} on_the_disk",
    ),
    Mutant(
        "ledger: missing lines are not noticed",
        "privacy/ledger.py",
        "    if json.loads(_end(lines, **path)) != end:\n",
        "    if False:\n",
        f"{_LEDGER} missing_or_repeated",
    ),
    Mutant(
        "ledger: other users may write to the folder of open blocks",
        "privacy/private_folder.py",
        "status.st_mode & 0o077",
        "status.st_mode & 0o000",
        "tests/privacy/test_private_folder.py -k others",
    ),
    Mutant(
        "accounting: deltas inside of samples are counted once",
        "privacy/accountants.py",
        "                    lost + count * more,",
        "                    lost + more,",
        "tests/privacy/test_accountants.py -k inside_of_samples",
    ),
    Mutant(
        "accounting: nothing is kept for the rounding of a convolution",
        "privacy/accountants.py",
        "_convolve(leaves, delta - rounding, bound",
        "_convolve(leaves, delta, bound",
        "tests/privacy/test_convolution.py -k kept",
    ),
    Mutant(
        "accounting: the epsilon of Gaussians is not verified",
        "privacy/gaussian_dp.py",
        "        lambda epsilon: gaussian_delta(epsilon, mu) <= delta,",
        "        lambda epsilon: True,",
        "tests/privacy/test_gaussian_dp.py -k slack_is_not_enough",
    ),
    Mutant(
        "accounting: what a record adds to a sampled sum is halved",
        "privacy/accountants.py",
        "gaussian.append((2.0 / leaf.record_multiplier, leaf.record_multiplier, options",
        "gaussian.append((1.0 / leaf.record_multiplier, 2.0 * leaf.record_multiplier, options",
        "tests/privacy/test_convolution.py -k sampled_sum",
    ),
    Mutant(
        "accounting: the noise of one record in a sampled sum is doubled",
        "mechanisms/sampled_gaussian.py",
        "of_record = self.noise_multiplier * self.replacement",
        "of_record = 2.0 * self.noise_multiplier * self.replacement",
        "tests/algorithms/baselines/test_sgda.py -k honours_the_budget",
    ),
    Mutant(
        "blocks of steps go by position",
        "algorithms/preparation/centered_rows.py",
        "labels.members(records.n_units)",
        "[np.arange(k, records.n_units, n_blocks) for k in range(n_blocks)]",
        "tests/linear_model/test_sorted_tables.py",
    ),
    Mutant(
        "labels of all fits have one key",
        "mechanisms/secret_order.py",
        "KeyedLabels(n_labels, noise.words(4).tobytes())",
        "KeyedLabels(n_labels, bytes(32))",
        "tests/linear_model/test_sorted_tables.py tests/mechanisms/test_secret_order.py",
    ),
    Mutant(
        "phases go by position",
        "algorithms/output/blocks.py",
        "order = random_order(n_records, noise)",
        "order = np.arange(n_records)",
        "tests/contract/test_draws.py -k order_of_the_table",
    ),
    Mutant(
        "folds go by position",
        "algorithms/tuning/splits.py",
        "order = random_order(n_records, noise)",
        "order = np.arange(n_records)",
        "tests/contract/test_draws.py -k order_of_the_table",
    ),
    Mutant(
        "splits of hypergradients go by position",
        "algorithms/tuning/hypergradient.py",
        "order = random_order(data.n_units, run.noise)",
        "order = np.arange(data.n_units)",
        "tests/contract/test_draws.py -k order_of_the_table",
    ),
    Mutant(
        "splits of held-out scores go by position",
        "algorithms/tuning/exponential.py",
        "order = random_order(data.n_units, run.noise)",
        "order = np.arange(data.n_units)",
        "tests/contract/test_draws.py -k order_of_the_table",
    ),
    Mutant(
        "bilevel roles go by position",
        "algorithms/tuning/bilevel.py",
        "ordered = data.take(data.records_of(random_order(data.n_units, run.noise)))",
        "ordered = data",
        "tests/contract/test_draws.py -k order_of_the_table",
    ),
    Mutant(
        "rounds read slices of the table",
        "algorithms/mirror/rounds.py",
        "if not self.full_batch:\n            data =",
        "if self.full_batch is None:\n            data =",
        "tests/algorithms/test_orders_of_records.py",
    ),
    Mutant(
        "boosting reads quarters of the table",
        "algorithms/mirror/boosted.py",
        "        data = data.ordered(random_order(self.design.n_records, run.noise))\n",
        "",
        "tests/algorithms/test_orders_of_records.py",
    ),
    Mutant(
        "batches of Frank-Wolfe are slices of the table",
        "algorithms/mirror/variance_reduced.py",
        "            data.ordered(random_order(self.design.n_records, run.noise)), run\n",
        "            data, run\n",
        "tests/algorithms/test_orders_of_records.py",
    ),
    Mutant(
        "SPIDER: differences are charged as if gradients came by the period",
        "algorithms/recursive/settings.py",
        "fewest = n_refresh if self.drift is None else 1",
        "fewest = n_refresh",
        f"{_SPIDER} -k drift",
    ),
    Mutant(
        "SPIDER: a drift asks for more gradients than are charged",
        "algorithms/recursive/settings.py",
        "moved >= self.drift and n_before < self.n_queries[0]",
        "moved >= self.drift",
        f"{_SPIDER} -k drift",
    ),
    Mutant(
        "mirror descent: sums over the private number of records",
        "problems/vertices.py",
        "size = batch.stop - batch.start if replaced else self.design.n_records",
        "size = batch.stop - batch.start",
        f"{_VERTICES} -k no_further",
    ),
    Mutant(
        "mirror descent: batches under add/remove",
        "algorithms/mirror/rounds.py",
        "    if not full_batch:\n        require",
        "    if full_batch is None:\n        require",
        "tests/algorithms/mirror/test_plain.py -k private_number",
    ),
    Mutant(
        "Frank-Wolfe: a change of gradients counts once",
        "algorithms/mirror/variance_reduced.py",
        "2.0 * limit if depth",
        "limit if depth",
        f"{_VARIANCE_REDUCED} -k attains",
    ),
    Mutant(
        "Frank-Wolfe: a record of the root moves one draw",
        "algorithms/mirror/variance_reduced.py",
        "[(node.sensitivity, node.n_leaves)]",
        "[(node.sensitivity, 1)]",
        f"{_VARIANCE_REDUCED} -k 'costs_at_most'",
    ),
    Mutant(
        "Frank-Wolfe: a child reads the batch of its parent",
        "algorithms/mirror/variance_reduced.py",
        "slice(self.start - node.batch, self.start)",
        "slice(self.start - node.batch - 1, self.start - 1)",
        f"{_VARIANCE_REDUCED} -k reference",
    ),
    Mutant(
        "Frank-Wolfe: changes are not clipped",
        "problems/vertices.py",
        "np.clip(new - old, -limit, limit).mean",
        "(new - old).mean",
        f"{_VARIANCE_REDUCED} -k attains",
    ),
    Mutant(
        "batches of queries are slices of the table",
        "algorithms/queries/mirror_descent.py",
        "random_order(data.n_records, noise)",
        "np.arange(data.n_records)",
        "tests/algorithms/test_orders_of_records.py",
    ),
    Mutant(
        "folds of cross-validation go by position",
        "model_selection/cross_validation.py",
        "order = random_order(n, noise)",
        "order = np.arange(n)",
        "tests/algorithms/test_orders_of_records.py",
    ),
    Mutant(
        "ranges are drawn where ranks are noise",
        "preprocessing/quantile_ranges.py",
        "found = drawn[0] <= 0.25 and drawn[1] >= 0.75",
        "found = True",
        f"{_RANGES} are_noise",
    ),
    Mutant(
        "quantiles are drawn where they cannot be found",
        "preprocessing/quantile_ranges.py",
        "plan = replace(plan, quantiles=drawn)\n",
        "",
        f"{_RANGES} 'extrapolated or extremes'",
    ),
    Mutant(
        "ranges that were found for other quantiles are not widened",
        "preprocessing/quantile_ranges.py",
        "ends = np.clip(_widened(ends, drawn, (low, high)), -1.0, 1.0)",
        "pass",
        f"{_RANGES} 'extrapolated or extremes'",
    ),
    Mutant(
        "a score by labels moves as one sum",
        "algorithms/statistics/noisy_score.py",
        'sensitivity, statement = math.sqrt(2.0), "Lemma 2"',
        'sensitivity, statement = 1.0, "Lemma 2"',
        _SCORES,
    ),
    Mutant(
        "wrong predictions count for two classes",
        "algorithms/statistics/noisy_score.py",
        "return 1.0 if self.n_labels == 1 else math.sqrt(0.5)",
        "return 1.0",
        _SCORES,
    ),
    Mutant(
        "the number of positive records is released in full",
        "algorithms/statistics/noisy_score.py",
        "size_weight = math.sqrt(0.75)",
        "size_weight = 1.0",
        _SCORES,
    ),
    Mutant(
        "pairs of records count in full",
        "algorithms/statistics/noisy_score.py",
        "doubled / unit**2 / (2 * (self.n_records - 1))",
        "doubled / unit**2 / (self.n_records - 1)",
        _SCORES,
    ),
    Mutant(
        "scores of labels are not clipped",
        "algorithms/statistics/noisy_score.py",
        "scores = in_unit_interval(values)\n        values, labels",
        "scores = values\n        values, labels",
        _SCORES,
    ),
    Mutant(
        "scores are computed before they are paid for",
        "model_selection/cross_validation.py",
        """            with overlap.part(2 * number + 1):
                spend(events[number], label=f"score of fold {number + 1}")
            data = scoring_.data(model, take_rows(X, test), y[test], test, persons)
""",
        """            data = scoring_.data(model, take_rows(X, test), y[test], test, persons)
            with overlap.part(2 * number + 1):
                spend(events[number], label=f"score of fold {number + 1}")
""",
        f"{_FOLDS} refused_is_not_computed",
    ),
    Mutant(
        "folds are checked when their turn comes",
        "model_selection/cross_validation.py",
        "rehearse(estimator, (fit_on(rows) for rows in parts_of_records), lambda: nothing)\n",
        "pass\n",
        f"{_FOLDS} before_the_first_charge",
    ),
    Mutant(
        "rehearsals are charged",
        "model_selection/rehearsal.py",
        "with budget():",
        "with contextlib.nullcontext():",
        f"{_FOLDS} 'price_is_one_fit or before_the_first_charge'",
    ),
    Mutant(
        "steps do not pay for records that are elsewhere",
        "algorithms/descent/steps.py",
        "return sums.bound(2.0 * moved if rows.of_persons and plan.attack else moved)",
        "return sums.bound()",
        "tests/algorithms/descent/test_noisy_descent.py -k 'covers_rounding or grows_with'",
    ),
    Mutant(
        "second moments do not pay for records that are elsewhere",
        "algorithms/preparation/second_moments.py",
        "moved = two_products(design.n_features, amplified)",
        "moved = 0.0",
        "tests/algorithms/preparation -k 'last_bits or covers_rounding'",
    ),
    Mutant(
        "released moments do not pay for records that are elsewhere",
        "algorithms/tuning/moments.py",
        "return two_products(design.width, design.size_ratio)",
        "return 0.0",
        "tests/algorithms/tuning",
    ),
    Mutant(
        "norms are known better than they are",
        "algorithms/preparation/centered_rows.py",
        "off_center = 9.0 *",
        "off_center = 1.0 *",
        "tests/algorithms/preparation/test_centering.py -k cancellation",
    ),
    Mutant(
        "a warning of a fit comes after its payment",
        "linear_model/base.py",
        "        self._warn(choice.plan, records)\n",
        "        self._pay_and_run(choice.plan, records)\n"
        "        self._warn(choice.plan, records)\n",
        "tests/contract/test_warnings.py -k logistic",
    ),
    Mutant(
        "steps that learn are warned of after the payment",
        "privacy/accounted.py",
        "            warn_of_steps(steps)\n",
        "            spend(event, self.accountant, carried=self._sent_from)\n"
        "            warn_of_steps(steps)\n",
        "tests/privacy/test_pipeline_steps.py -k costs_nothing",
    ),
    Mutant(
        "cross-validation warns of steps that learn in every fold",
        "model_selection/cross_validation.py",
        "        stack.enter_context(checked(estimator))\n",
        "",
        "tests/privacy/test_pipeline_steps.py -k before_the_first",
    ),
    Mutant(
        "the quantile loss says that its derivative is one-sided",
        "problems/piecewise_linear.py",
        '        q in (0, 1).\n    """\n',
        '        q in (0, 1).\n    """\n\n    has_one_sided_derivative = True\n',
        _LOSSES,
    ),
    Mutant(
        "smoothed losses all say that their derivative is one-sided",
        "problems/piecewise_linear.py",
        "return self.base.has_one_sided_derivative",
        "return True",
        _LOSSES,
    ),
    Mutant(
        "boosting: values of records are not clipped",
        "algorithms/mirror/boosted.py",
        "float(np.clip(each, -bound, bound).mean())",
        "float(each.mean())",
        f"{_BOOSTED} -k sensitivity",
    ),
    Mutant(
        "boosting: the sensitivity of gaps is halved",
        "algorithms/mirror/boosted.py",
        "(4.0 / size + rounding)",
        "(2.0 / size + rounding)",
        f"{_BOOSTED} -k sensitivity",
    ),
    Mutant(
        "boosting: the choice reads the records of responses",
        "algorithms/mirror/boosted.py",
        "last = slice(3 * size, 4 * size)",
        "last = slice(2 * size, 3 * size)",
        f"{_BOOSTED} -k two_parts",
    ),
    Mutant(
        "boosting: responses read the records of runs",
        "algorithms/mirror/boosted.py",
        "offset = (1 + free) * size +",
        "offset = free * size +",
        f"{_BOOSTED} -k two_parts",
    ),
    Mutant(
        "boosting: all runs read the same records",
        "algorithms/mirror/boosted.py",
        "offset=i * n)",
        "offset=0)",
        f"{_BOOSTED} -k two_parts",
    ),
    Mutant(
        "boosting: responses to a run read the same records",
        "algorithms/mirror/boosted.py",
        "(i * self.n_responses + j) * m",
        "i * self.n_responses * m",
        f"{_BOOSTED} -k two_parts",
    ),
    Mutant(
        "Frank-Wolfe: sensitivity of gradients halved",
        "algorithms/baselines/frank_wolfe.py",
        "(design.oscillations[0] / design.n_records +",
        "(0.5 * design.oscillations[0] / design.n_records +",
        "tests/algorithms/baselines/test_frank_wolfe.py",
    ),
    Mutant(
        "softmax: no proposal below the resolution of doubles",
        "mechanisms/softmax.py",
        "    counts += 1\n",
        "    counts += counts > 0\n",
        f"{_SOFTMAX} below_all",
    ),
    Mutant(
        "softmax: all proposals are kept",
        "mechanisms/softmax.py",
        "kept = proposals[_accept(scores, top, bits, counts, proposals, noise)]",
        "kept = proposals",
        f"{_SOFTMAX} refused_by",
    ),
    Mutant(
        "softmax: undecided comparisons are decided by doubles",
        "mechanisms/softmax.py",
        "for k in np.flatnonzero(np.abs(middle - chance) <= margin):",
        "for k in []:",
        f"{_SOFTMAX} undecided",
    ),
    Mutant(
        "norms of centered rows without their rounding",
        "algorithms/preparation/centered_rows.py",
        "            squares += two_norms(d, (self.norm_bound - self.constant) ** 2)\n",
        "",
        "tests/algorithms/preparation/test_centering.py -k near_the_mean",
    ),
    Mutant(
        "norms without an intercept are rounded down",
        "algorithms/preparation/centered_rows.py",
        "            squares *= 1.0 + (d + 8) * EPS\n",
        "            pass\n",
        "tests/algorithms/preparation/test_centering.py -k without_an_intercept",
    ),
    Mutant(
        "solver and noise share a stream",
        "_estimator.py",
        "np.random.default_rng(for_solver), NoiseSource",
        "np.random.default_rng(for_noise), NoiseSource",
        "tests/test_randomness.py",
    ),
    Mutant(
        "floor without the largest weight of a group",
        "algorithms/descent/noisy_descent.py",
        "unit = self.sensitivity * math.sqrt(self.n_blocks)",
        "unit = self.sensitivity / self.largest_factor * math.sqrt(self.n_blocks)",
        _RARE,
    ),
    Mutant(
        "floor without the noise of blocks",
        "algorithms/descent/noisy_descent.py",
        "unit = self.sensitivity * math.sqrt(self.n_blocks)",
        "unit = self.sensitivity",
        _RARE,
    ),
    Mutant(
        "floor that lowers values",
        "algorithms/preparation/second_moments.py",
        "np.maximum(self.values, floor)",
        "np.minimum(self.values, floor)",
        _RARE,
    ),
    Mutant(
        "floor of squares without the deviation of the targets",
        "algorithms/descent/noisy_descent.py",
        "unit /= self.loss.target_bound * math.sqrt(self.target_variance)",
        "unit /= self.loss.target_bound",
        _RARE,
    ),
    Mutant(
        "plain steps without a bound on the noise of a margin",
        "algorithms/descent/noisy_descent.py",
        "damping = max(damping, 0.5 / limit)",
        "damping = damping",
        _RARE,
    ),
    Mutant(
        "constant model of networks that no part of the budget is for",
        "algorithms/worst_group/network.py",
        "ledger=rgda.ledger.with_less(1.0 - share / (1.0 - for_sizes))",
        "ledger=rgda.ledger.with_less(1.0 - share)",
        "tests/robust/test_max_group_loss_mlp.py -k constant",
    ),
    Mutant(
        "weights of columns without records are kept",
        "algorithms/descent/steps.py",
        "kept = self.reliability(learnt)",
        "kept = np.ones_like(learnt)",
        _RARE,
    ),
    Mutant(
        "records of columns with the noise of one record in place of a replacement",
        "algorithms/descent/steps.py",
        "rules.HALF_RELIABLE * plan.objective.neighbouring.n_changes",
        "rules.HALF_RELIABLE",
        _RARE,
    ),
    Mutant(
        "means of columns of squares with the noise of unscaled rows",
        "algorithms/descent/steps.py",
        "of_means = centering.errors[0] * centering.scale",
        "of_means = centering.errors[0]",
        _RARE,
    ),
    Mutant(
        "records of columns without the sampling of log odds",
        "algorithms/descent/steps.py",
        "math.hypot(hidden, sampled)",
        "hidden",
        _RARE,
    ),
    Mutant(
        "large weights of columns of few records are taken for signal",
        "algorithms/descent/steps.py",
        "noise[:d] + (sampled / (n * (np.maximum(moments, 0.0) + error))) ** 2",
        "noise[:d]",
        _RARE,
    ),
    Mutant(
        "law of the moments of columns that no column changes",
        "algorithms/descent/shares.py",
        "for _ in range(rules.EM_STEPS):",
        "for _ in range(0):",
        _RARE,
    ),
    Mutant(
        "alarm of tables as that of other rows",
        "algorithms/descent/noisy_descent.py",
        "classes = 2 if self.objective.design.directions else 1",
        "classes = 1",
        "tests/algorithms/descent/test_alarms.py",
    ),
    Mutant(
        "plain paths without the length of rows",
        "algorithms/descent/noisy_descent.py",
        "longest=math.hypot(1.0, float(np.linalg.norm(centering.mean))) / centering.scale",
        "longest=1.0",
        _RARE,
    ),
    Mutant(
        "centre of squares left out of the mean square norm",
        "algorithms/preparation/centering.py",
        "means[d] += shift * _SQUARE_WEIGHT",
        "means[d] += 0.0",
        f"{_CENTERING} count",
    ),
    Mutant(
        "count left out of the sensitivity",
        "algorithms/preparation/centering.py",
        " + count**2 + targets.added",
        " + targets.added",
        f"{_CENTERING} lemma_1",
    ),
    Mutant(
        "weight of labels left out of the sensitivity",
        "algorithms/preparation/centering.py",
        "return self.weight**2",
        "return 1.0",
        f"{_CENTERING} lemma_1",
    ),
    Mutant(
        "rounding by the released number of records",
        "algorithms/descent/steps.py",
        "return sums.bound(2.0 * moved if rows.of_persons and plan.attack else moved)",
        "return sums.bound(moved * plan.n_records)",
        f"{_COUNTS} -k rounding",
    ),
    Mutant(
        "spread: no rounding of counts of weights",
        "algorithms/preparation/spread.py",
        "size=1.0 if design.is_weighted else 0.0,",
        "size=0.0,",
        "tests/algorithms/output/test_prepared.py -k counts_of_weights",
    ),
    Mutant(
        "prepared solves: rounding of the map for the public number of records",
        "algorithms/output/prepared.py",
        "return float(constants.size_ratio * errors)",
        "return float(errors)",
        "tests/algorithms/output/test_prepared.py -k rounding_of_the_map",
    ),
    Mutant(
        "remark after a fit by the number of records that there are",
        "algorithms/descent/noisy_descent.py",
        "noise_share=noise.share)",
        "noise_share=noise.share * data.n_units / plan.n_records)",
        "tests/algorithms/descent/test_alarms.py -k follows_from",
    ),
    Mutant(
        "counts take the place of public numbers that are right",
        "algorithms/preparation/rules.py",
        "CONTRADICTION = 2.0",
        "CONTRADICTION = 0.0",
        f"{_CENTERING} contradicted",
    ),
    Mutant(
        "gradients are divided by the public number",
        "algorithms/descent/steps.py",
        "            plan.n_records,\n            noise,",
        "            design.n_records,\n            noise,",
        _COUNTS,
    ),
    Mutant(
        "second moments are divided by the public number",
        "algorithms/preparation/second_moments.py",
        "n_records = rows.n_counted or design.n_records",
        "n_records = design.n_records",
        _COUNTS,
    ),
    Mutant(
        "losses of groups are divided by the public number",
        "algorithms/worst_group/looks.py",
        "        n = plan.n_records\n        moved",
        "        n = self.objective.design.n_records\n        moved",
        _COUNTS,
    ),
    Mutant(
        "sizes of groups by the public number",
        "algorithms/worst_group/margin_fits.py",
        "self.sizes = plan.n_records * proportions",
        "self.sizes = design.n_records * proportions",
        _COUNTS,
    ),
    Mutant(
        "prior of the share of a class of Jeffreys",
        "algorithms/preparation/rules.py",
        "SHARE_PRIOR, LEAST_SHARE = 1.0, 0.005",
        "SHARE_PRIOR, LEAST_SHARE = 0.5, 0.005",
        f"{_CENTERING} rare_class",
    ),
    Mutant(
        "log odds of a rare class stay where classes are groups",
        "algorithms/descent/noisy_descent.py",
        "                offsets = np.zeros_like(offsets)\n",
        "",
        _CLASSES,
    ),
    Mutant(
        "residuals of both classes are taken to be alike",
        "algorithms/worst_group/margin_fits.py",
        "self.signs[1, 1] = -1.0",
        "self.signs[1, 1] = 1.0",
        _CLASSES,
    ),
    Mutant(
        "weighted classes start from the log odds of all records",
        "algorithms/worst_group/looks.py",
        "models.offsets = self._class_odds(weights)",
        "pass",
        _CLASSES,
    ),
    Mutant(
        "prepared: slopes may be twice as large",
        "algorithms/output/prepared.py",
        "ClippedSlopes(affine=prepared.affine, clip=clip, factors",
        "ClippedSlopes(affine=prepared.affine, clip=2.0 * clip, factors",
        "tests/algorithms/output/test_prepared.py",
    ),
    Mutant(
        "prepared: a rare class keeps its log odds where classes are groups",
        "algorithms/output/prepared.py",
        "if self.is_balanced:",
        "if False:",
        "tests/algorithms/worst_group/test_classes_as_groups.py -k newton",
    ),
    Mutant(
        "prepared: parts of epsilon are those of mu",
        "algorithms/preparation/levels.py",
        "(share if self.is_pure else math.sqrt(share))",
        "math.sqrt(share)",
        "tests/algorithms/output/test_prepared_pure.py",
    ),
    Mutant(
        "prepared: normal noise for the means with pure privacy",
        "algorithms/preparation/centering.py",
        "is_pure=is_pure,",
        "is_pure=False,",
        "tests/algorithms/output/test_prepared_pure.py",
    ),
    Mutant(
        "prepared: solves share no budget",
        "algorithms/output/prepared.py",
        "self.level.part(1.0 / n_solves).mechanism",
        "self.level.mechanism",
        "tests/algorithms/output/test_prepared.py",
    ),
    Mutant(
        "prepared: a gradient has half of its bound",
        "problems/slope_clipped.py",
        "return 2.0 * self.clip",
        "return self.clip",
        "tests/algorithms/output/test_prepared.py",
    ),
    Mutant(
        "prepared: slopes of several classes as long as one",
        "problems/slope_clipped.py",
        "np.full(len(squares), 2.0)",
        "np.full(len(squares), 1.0)",
        "tests/algorithms/output/test_prepared.py -k several_classes",
    ),
    Mutant(
        "prepared: mean log odds as short as one of them",
        "problems/slope_clipped.py",
        "squares = 1.0 + (self._shares**2).sum(axis=1)",
        "squares = np.ones(len(self._shares))",
        "tests/algorithms/output/test_prepared.py -k several_classes",
    ),
    Mutant(
        "prepared: clipped log odds of several classes bend as the softmax",
        "problems/slope_clipped.py",
        "return self.loss.curvature + float((is_used * bends).max())",
        "return self.loss.curvature",
        "tests/algorithms/output/test_prepared.py -k several_classes",
    ),
    Mutant(
        "prepared: mean log odds above the log odds",
        "problems/slope_clipped.py",
        "logits) + _entropy(shares)",
        "logits) + 2.0 * _entropy(shares)",
        "tests/algorithms/output/test_prepared.py -k several_classes",
    ),
    Mutant(
        "prepared: every class against the rest has the whole length",
        "problems/slope_clipped.py",
        "np.sqrt(parts) * targets[:, 1:]",
        "targets[:, 1:]",
        "tests/algorithms/output/test_prepared.py -k several_classes",
    ),
    Mutant(
        "prepared: a record moves one count of the spread",
        "algorithms/preparation/spread.py",
        "sensitivity=math.sqrt(neighbouring.n_changes)",
        "sensitivity=1.0",
        "tests/algorithms/output/test_prepared.py",
    ),
    Mutant(
        "prepared: norms are those of shorter rows",
        "algorithms/preparation/prepared_records.py",
        "np.hypot(lengths * shortened, self.affine.constant)",
        "lengths * shortened * shortened",
        "tests/algorithms/output/test_prepared.py",
    ),
    Mutant(
        "prepared: the user's penalty in the solve",
        "algorithms/output/prepared.py",
        "_relative_penalty * float(self._undone_shares.mean()) * self.curvature",
        "_relative_penalty * self.curvature + self.objective.alpha",
        "tests/algorithms/output/test_prepared.py",
    ),
    Mutant(
        "prepared: the temperature has the budget of the solves",
        "algorithms/output/prepared.py",
        "plan_temperature(loss, design, relation, level.part(share).mu)",
        "plan_temperature(loss, design, relation, level.mu)",
        "tests/algorithms/output/test_prepared.py",
    ),
    Mutant(
        "prepared: a strong penalty keeps the intercept's whole correction",
        "algorithms/preparation/penalty.py",
        "moved + kept * (offsets - model.offsets)",
        "moved + (offsets - model.offsets)",
        "tests/algorithms/preparation/test_penalty.py -k strong_penalty",
    ),
    Mutant(
        "prepared: the curvature of log odds is that of large margins",
        "algorithms/preparation/penalty.py",
        "            before, weights = weights, self._solved(curvature, alpha)",
        "            before, weights = weights, self._solved(self._curvature, alpha)",
        "tests/algorithms/preparation/test_penalty.py -k follows_from",
    ),
    Mutant(
        "a selection by a fixed number of draws",
        "model_selection/search.py",
        "range(law.number(lambda chance: bool(noise.bernoulli(1, chance)[0])))",
        "range(round(law.mean) + 2)",
        "tests/model_selection/test_search.py -k whatever_the_number",
    ),
    Mutant(
        "a selection priced without the ratio of ranks",
        "privacy/selection.py",
        "return ratio + gaussian_epsilon(delta / law.mean * (1.0 - 1e-9), mu)",
        "return gaussian_epsilon(delta / law.mean * (1.0 - 1e-9), mu)",
        "tests/privacy/test_selection.py -k no_order",
    ),
    Mutant(
        "a selection priced at the delta of one draw",
        "privacy/selection.py",
        "gaussian_epsilon(delta / law.mean * (1.0 - 1e-9), mu)",
        "gaussian_epsilon(delta, mu)",
        "tests/privacy/test_selection.py -k 'profiles or no_order'",
    ),
    Mutant(
        "geometric draws at the price of logarithmic ones",
        "privacy/selection.py",
        'power = 2.0 if self.name == "geometric" else 1.0',
        "power = 1.0",
        "tests/privacy/test_selection.py -k 'no_order or no_pure'",
    ),
    Mutant(
        "draws above the limit that was paid for",
        "privacy/charges.py",
        "if total > self._limit * (1.0 + 1e-9):",
        "if False:",
        "tests/model_selection/test_search.py -k 'above_the_limit'",
    ),
    Mutant(
        "draws of a selection that share their noise",
        "model_selection/search.py",
        "seed = None if self.random_state is None or rng is None else int(rng.integers(2**32))",
        "seed = self.random_state",
        "tests/model_selection/test_search.py -k noise_of_its_own",
    ),
    Mutant(
        "rounds: a gradient has half of its bound",
        "algorithms/tuning/rounds.py",
        "n_changes * clip / design.n_records\n            sensitivity",
        "n_changes * clip / design.n_records / 2.0\n            sensitivity",
        _ROUNDS,
    ),
    Mutant(
        "rounds: they share no budget",
        "algorithms/tuning/rounds.py",
        "self.level.part(1.0 / self.n_solves).mechanism",
        "self.level.mechanism",
        _ROUNDS,
    ),
    Mutant(
        "rounds: gradients without their noise",
        "algorithms/tuning/rounds.py",
        "steps * curvature.rotated(noisy)",
        "steps * curvature.rotated(problem.gradient(weights))",
        _ROUNDS,
    ),
    Mutant(
        "rounds: sums over the records that there are",
        "algorithms/tuning/rounds.py",
        "n_public = design.n_records if nominal else None",
        "n_public = None",
        _ROUNDS,
    ),
    Mutant(
        "rounds: the penalty of several classes is that of one output",
        "algorithms/tuning/rounds.py",
        "return sum(values), np.sum(gradients, axis=0)",
        "return values[0], gradients[0]",
        "tests/algorithms/tuning/test_rounds.py -k several_outputs",
    ),
    Mutant(
        "rounds: slopes may be twice as large",
        "algorithms/tuning/rounds.py",
        "ClippedSlopes(affine=made, clip=clip)",
        "ClippedSlopes(affine=made, clip=2.0 * clip)",
        _ROUNDS,
    ),
    Mutant(
        "rounds: norms lack the constant",
        "algorithms/preparation/prepared_records.py",
        "np.hypot(lengths * shortened, self.affine.constant)",
        "lengths * shortened",
        _ROUNDS,
    ),
    Mutant(
        "rounds: no budget is left to the preparation",
        "algorithms/tuning/rounds.py",
        "plan.total.part(1.0 - plan.preparation.share)",
        "plan.total",
        _ROUNDS,
    ),
    Mutant(
        "rounds: long rows are shortened",
        "algorithms/tuning/rounds.py",
        "largest_norm=made.raw_norm * ROUNDING_SLACK",
        "largest_norm=4.0",
        _ROUNDS,
    ),
    Mutant(
        "rounds: the constant is that of all records",
        "algorithms/tuning/rounds.py",
        "(0.0 if self.is_squared else shift**2)",
        "0.0 * shift",
        _ROUNDS,
    ),
    Mutant(
        "rounds: candidates without their noise",
        "algorithms/tuning/rounds.py",
        "+ float(inverse.diagonal() @ noise)",
        "",
        _ROUNDS,
    ),
    Mutant(
        "a search that scores records of the fit",
        "model_selection/search.py",
        "test, train = order[:n_test], order[n_test:]",
        "test, train = order[:n_test], order",
        "tests/model_selection/test_search.py -k both_fitted",
    ),
    Mutant(
        "a search whose draws may cost more",
        "model_selection/search.py",
        "with Prepaid(share.limit, share.is_pure, neighbouring=relation).paying():",
        "with Prepaid(9.0 * share.limit, share.is_pure, neighbouring=relation).paying():",
        "tests/model_selection/test_search.py -k fitted_twice",
    ),
    Mutant(
        "a prepaid limit for other threads",
        "privacy/charges.py",
        "if current is None or current[1:] != (threading.get_ident(), os.getpid()):",
        "if current is None:",
        "tests/model_selection/test_search.py -k another_thread",
    ),
    Mutant(
        "a search that prints and caches each draw",
        "model_selection/search.py",
        'if (last := name.rsplit("__", 1)[-1]) in _QUIET:',
        "if (last := name) in _QUIET:",
        "tests/model_selection/test_search.py -k outside_of_the_result",
    ),
    Mutant(
        "a search that leaves the global generator moved",
        "model_selection/search.py",
        "with staged(self) as fitted, _global_generator():",
        "with staged(self) as fitted:",
        "tests/model_selection/test_search.py -k outside_of_the_result",
    ),
    Mutant(
        "a rehearsal that goes beyond a release",
        "privacy/charges.py",
        "        if self._is_rehearsal:\n",
        '        if self._is_rehearsal and "Scaler" not in label:\n',
        "tests/model_selection/test_search.py -k not_paid_for",
    ),
    Mutant(
        "prepared: the spread without its noise",
        "algorithms/preparation/spread.py",
        "counts, _ = self.sum.release(exact, noise)",
        "counts = exact + 0.0 * self.sum.release(exact, noise)[0]",
        _PREPARED,
    ),
    Mutant(
        "prepared: distances from the mean of the records",
        "algorithms/preparation/plan.py",
        "spread = self.spread.release(records, offset,",
        "spread = self.spread.release(records, float(records.targets.mean()),",
        _PREPARED,
    ),
    Mutant(
        "prepared: the center of a solve is moved by the records",
        "algorithms/output/prepared.py",
        "weights = curvature.rotated_back(beta)",
        "weights = curvature.rotated_back(beta) + 1e-9 * problem.gradient(weights)",
        _PREPARED,
    ),
    Mutant(
        "prepared: residuals in units of the spread of the records",
        "algorithms/output/prepared.py",
        "centered, offsets, factor, run.noise, prepared.spread",
        "centered, offsets, factor, run.noise, float(data.targets.std())",
        _PREPARED,
    ),
    Mutant(
        "rounds: gradients without their rounding",
        "algorithms/tuning/rounds.py",
        "2.0 * problem.constants.gradient_rounding",
        "0.0",
        _ROUNDS,
    ),
    Mutant(
        "rounds: steps for the number of records that there are",
        "algorithms/tuning/rounds.py",
        "(prepared.centering.n_records or design.n_records)",
        "data.n_records",
        _PREPARED,
    ),
)


def plant(mutant: Mutant, package: Path) -> None:
    """Plant a mutant in a copy of the package.

    Raises
    ------
    ValueError
        If the text is not there.
    """
    path = package / mutant.path
    text = path.read_text()
    if mutant.old not in text:
        raise ValueError(f"{mutant.name}: the text to replace is not in {mutant.path}.")
    path.write_text(text.replace(mutant.old, mutant.new, 1))


@cache
def passes(tests: str) -> bool:
    """Whether tests pass on the package as it is."""
    return _pytest(tests, None)[0] == 0


def is_killed(mutant: Mutant) -> tuple[bool, str]:
    """Whether a test fails with the mutant and without it none, and the end of pytest's output."""
    code, output = _pytest(mutant.tests, mutant)
    # 1: a test failed; anything else is no verdict of a test
    return code == 1 and passes(mutant.tests), output


def _pytest(tests: str, mutant: Mutant | None) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "skdp"
        shutil.copytree(ROOT / "skdp", package)
        if mutant is not None:
            plant(mutant, package)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider"]
        command += ["--tb=line", f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={ROOT}"]
        # all kinds of tests, also those that a plain run leaves out
        command += ["-m", "", *(_absolute(word) for word in shlex.split(tests))]
        paths = os.pathsep.join([folder, str(ROOT / "tests" / "support")])
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTEST_ADDOPTS", None)
        # in the folder of the copy: Python imports from where it runs, before PYTHONPATH
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    return done.returncode, done.stdout[-600:]


def _absolute(word: str) -> str:
    return str(ROOT / word) if word.startswith("tests/") else word


def main() -> int:
    survivors = 0
    for mutant in MUTANTS:
        if sys.argv[1:] and not any(word in mutant.name for word in sys.argv[1:]):
            continue
        killed, output = is_killed(mutant)
        survivors += not killed
        print(f"{'killed' if killed else 'SURVIVED':9s} {mutant.name}", flush=True)
        if not killed or os.environ.get("MUTANTS_VERBOSE"):
            print(output, flush=True)
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
