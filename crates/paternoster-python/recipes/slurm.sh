#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# A plan as an array of jobs: sbatch slurm.sh PLAN.csv RESULTS. Submitted again, it runs what is left. Only
# some tasks: sbatch --array=17,23 slurm.sh … In 40 parts: PARTS=40 sbatch --array=1-40 slurm.sh …
#SBATCH --array=1-200
#SBATCH --cpus-per-task=1
#SBATCH --mem=1G
set -euo pipefail
exec python -m paternoster_io sweep "$1" --out "$2" --part "$SLURM_ARRAY_TASK_ID/${PARTS:-200}"
