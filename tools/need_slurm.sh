#!/bin/sh
# Sees to it that Slurm is here for the tests that start one of a single node: Debian's packages, where this runs as root.
# Starts no daemon: the tests start their own and end them.
set -eu

PATH="$PATH:/usr/sbin:/sbin"
here() {
  command -v slurmctld >/dev/null 2>&1 && command -v slurmd >/dev/null 2>&1 && command -v munged >/dev/null 2>&1 && command -v sbatch >/dev/null 2>&1
}

here && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq </dev/null || true
  DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge </dev/null >/dev/null || true
fi
here || echo "Slurm is not here (Debian: apt-get install slurmctld slurmd slurm-client munge): the tests that need it will be skipped" >&2
