#!/bin/bash
# Epilog= of slurm.conf: leaves a note of each job that failed, for `firstfault batch --queue`. It only queues: no command of
# Slurm is called, no log is opened, and it ends with 0 whatever happens, because Slurm drains the node of an epilog that fails.
# FIRSTFAULT_QUEUE: the queue, on a file system that the nodes and the worker share; only root may write there.
queue=${FIRSTFAULT_QUEUE:-/var/spool/firstfault}
code=${SLURM_JOB_EXIT_CODE2:-0:0}
[ "$code" = 0:0 ] && exit 0
[ -d "$queue/new" ] || exit 0
name=${SLURM_JOB_ID:-0}.${SLURM_JOB_RESTART_COUNT:-0}
# Every node of the job runs this: the first note counts.
for there in "$queue/new/$name" "$queue/done/$name"; do
  [ -e "$there" ] && exit 0
done
note=
add() {
  case $2 in
    '' | *$'\n'*) ;; # a name with a line end in it could write lines of its own
    *) note+="$1=$2"$'\n' ;;
  esac
}
add JOB "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}}"
add JOB_ID "$SLURM_JOB_ID"
add ARRAY_JOB "$SLURM_ARRAY_JOB_ID"
add ARRAY_TASK "$SLURM_ARRAY_TASK_ID"
add EXIT_CODE "$code"
add UID "$SLURM_JOB_UID"
add GID "$SLURM_JOB_GID"
add USER "$SLURM_JOB_USER"
add JOB_NAME "$SLURM_JOB_NAME"
add NODES "$SLURM_JOB_NODELIST"
add WORK_DIR "$SLURM_JOB_WORK_DIR"
add STDOUT "$SLURM_JOB_STDOUT"
add STDERR "$SLURM_JOB_STDERR"
part=$queue/new/.$name.$$.${SLURMD_NODENAME:-x}
{
  printf %s "$note" >"$part" && mv -n "$part" "$queue/new/$name"
  [ ! -e "$part" ] || rm -f "$part" # another node was faster, or there is no room
} 2>/dev/null
exit 0
