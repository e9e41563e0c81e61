#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# A plan as an array of jobs: sbatch slurm.sh PLAN.csv RESULTS. Submitted again, it does what is left.
#SBATCH --array=1-200
#SBATCH --cpus-per-task=1
#SBATCH --mem=1G
set -euo pipefail
exec python -m paternoster_io sweep "$1" --out "$2" --part "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
