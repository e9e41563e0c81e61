# SPDX-License-Identifier: MIT OR Apache-2.0
"""A search instead of a grid, for the lowest p99: python with_optuna.py JOB.fio DEVICE TRIALS."""

import sys

import optuna

import paternoster_io as pt

JOB, DEVICE, TRIALS = sys.argv[1], sys.argv[2], int(sys.argv[3])


def p99(trial: optuna.Trial) -> float:
    row = {
        "job": JOB,
        "device": DEVICE,
        "scheduler": trial.suggest_categorical("scheduler", ["mq-deadline", "kyber", "bfq"]),
        "set": f"nr_requests={trial.suggest_int('nr_requests', 4, 256, log=True)}",
    }
    (done,) = pt.run_rows([row]).rows()
    if done["error"] is not None:
        raise optuna.TrialPruned(done["error"])
    return done["p99_ns"]


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
study.optimize(p99, n_trials=TRIALS)
print(study.best_value, study.best_params)
