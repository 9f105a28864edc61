#!/bin/bash
# Many runs: a Ray cluster on the machines of a SLURM job, and a study on it. All words go to socrates:
#   sbatch slurm-study.sh sweep --datasets cifar100 --models vgg16 --methods socrates ce --seeds 1-5 --out runs
#SBATCH --job-name=socrates-study
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
# For GPUs add --gpus-per-node=4 here, and --device cuda to the words. Two minutes before the time is over this script
# hears SIGTERM: runs save what they have, and the same command, or a requeued job, continues.
set -euo pipefail

mapfile -t machines < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${machines[0]}
cores=${SLURM_CPUS_PER_TASK:-1}
on=(srun --overlap --cpus-per-task="$cores" --ntasks-per-node=1)
ip=$("${on[@]}" --nodes=1 --ntasks=1 --nodelist="$first" hostname --ip-address)
address="${ip%% *}:${RAY_PORT:-$((20000 + SLURM_JOB_ID % 20000))}" # a port of its own, if jobs share a machine

trap 'jobs -p | xargs -r kill' EXIT # whatever happens, Ray ends with this script

"${on[@]}" --nodes=1 --ntasks=1 --nodelist="$first" \
  ray start --head --node-ip-address="${address%:*}" --port="${address##*:}" --num-cpus="$cores" --block &
for attempt in {1..60}; do
  ray health-check --address "$address" > /dev/null 2>&1 && break
  [[ $attempt -lt 60 ]] || { echo "no Ray at $address after $attempt tries" >&2; exit 1; }
  sleep 2
done
others=$((${#machines[@]} - 1))
if ((others)); then
  "${on[@]}" --nodes="$others" --ntasks="$others" --exclude="$first" \
    ray start --address="$address" --num-cpus="$cores" --block &
fi

socrates "$@" --engine ray --address "$address" &
study=$!
trap 'kill -TERM "$study"' TERM
code=0
wait "$study" || code=$?
if kill -0 "$study" 2> /dev/null; then # a signal came, and it saves what it has
  code=0
  wait "$study" || code=$?
fi
exit "$code"
