"""From how many trials on the importance of keys is more than chance: searches in which one key
decides the loss and the other changes nothing."""

from __future__ import annotations

import numpy as np
import optuna
import pytest

from seqattn.experiments.tuning import trials

SEARCHES = 60


@pytest.fixture(scope="module")
def misled() -> dict[int, int]:
    """Trials -> searches in which the key without effect is named as the more important one."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    counts = dict.fromkeys((4, 8, 12, trials.MIN_TRIALS), 0)
    for seed in range(SEARCHES):
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        noise = np.random.default_rng(seed)

        def loss(trial: optuna.Trial, noise: np.random.Generator = noise) -> float:
            rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
            trial.suggest_float("nothing", 0, 1)
            return float((np.log10(rate) + 2.2) ** 2 + 0.05 * noise.normal() + 1)

        for count in counts:
            study.optimize(loss, n_trials=count - len(study.trials))
            evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
            counts[count] += found["nothing"] > found["rate"]
    return counts


@pytest.mark.filterwarnings("ignore")
def test_from_enough_trials_on_chance_does_not_decide(misled: dict[int, int]) -> None:
    print(misled)
    assert misled[trials.MIN_TRIALS] <= SEARCHES / 20
    assert misled[4] > SEARCHES / 5
