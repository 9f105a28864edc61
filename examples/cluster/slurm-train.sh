#!/bin/bash
# One large run on several machines, a process for each GPU. All words go to socrates train:
#   sbatch slurm-train.sh food101 resnet34 socrates --batch-size 512 --device cuda --out runs
#SBATCH --job-name=socrates-train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-node=4
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
# The batch size is that of all processes together. Two minutes before the time is over they hear SIGTERM and save: the
# same command, or a requeued job, continues, on any number of machines.
set -euo pipefail

mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
exec srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" torchrun \
  --nnodes="$SLURM_NNODES" --nproc-per-node="${SLURM_GPUS_ON_NODE:-1}" \
  --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="${machines[0]}:$((20000 + SLURM_JOB_ID % 20000))" \
  -m socrates.cli train "$@"
