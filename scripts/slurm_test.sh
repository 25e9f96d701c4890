#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# `holdfast lab run --executor slurm` with a real Slurm: two nodes, on loopback, with all files in a folder
# that is removed. A worker is killed in mid-array, then a worker and the command, then a node with all that
# runs there. The results must be those of a run without Slurm, to the byte.
#
#     scripts/slurm_test.sh [PROGRAM]      target/release/holdfast unless given
#
# Needs Debian's slurmctld, slurmd and munge (`make slurm-test`); they need not be configured or running.

set -euo pipefail

cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/release/holdfast}")
export PATH=$PATH:/usr/sbin:/sbin
for command in munged slurmctld slurmd sbatch squeue sinfo; do
    if ! command -v "$command" > /dev/null; then
        echo "SKIPPED: $command is not here; make slurm-test installs it"
        exit "${HOLDFAST_NO_SKIP:-0}"
    fi
done

folder=$(mktemp -d)
# Set before any job is cancelled: the jobs of other clusters are not this test's.
export SLURM_CONF=$folder/slurm.conf
pids=()
cleanup() {
    status=$?
    trap '' INT TERM
    # In reverse order: nodes, controller, munged. Their job steps end with the jobs.
    scancel --quiet --user "$(id -un)" 2> /dev/null || true
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        kill "${pids[i]}" 2> /dev/null || true
        wait "${pids[i]}" 2> /dev/null || true
    done
    if ((status != 0)) && [[ -e $folder/log ]]; then
        tail -n 20 "$folder"/log "$folder"/*.log >&2 || true
    fi
    rm -rf "$folder"
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits for a command to succeed, for five minutes at most.
wait_for() {
    local deadline=$((SECONDS + 300))
    until "${@:2}"; do
        if ((SECONDS > deadline)); then
            echo "$1: not within five minutes" >&2
            exit 1
        fi
        sleep 0.1
    done
}

dd if=/dev/urandom of="$folder/munge.key" bs=128 count=1 2> /dev/null
chmod 600 "$folder/munge.key"
mkdir "$folder/state" "$folder/n1" "$folder/n2"
cat > "$folder/slurm.conf" << CONF
ClusterName=holdfast
SlurmctldHost=$(hostname)(127.0.0.1)
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$folder/munge.socket
SlurmctldPort=26817
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout=10
MpiDefault=none
MailProg=/bin/true
NodeName=n1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=26818 CPUs=2
NodeName=n2 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=26819 CPUs=2
PartitionName=all Nodes=n1,n2 Default=YES State=UP
CONF

munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/munge.pid" --log-file="$folder/munge.log" --seed-file="$folder/munge.seed" \
    >> "$folder/log" 2>&1 &
pids+=($!)
wait_for "munged" test -S "$folder/munge.socket"
slurmctld -D >> "$folder/log" 2>&1 &
pids+=($!)
for node in n1 n2; do
    slurmd -D -N "$node" >> "$folder/log" 2>&1 &
    pids+=($!)
done
two_nodes() { [[ $(sinfo --noheader --Node --states=idle --format=%N 2> /dev/null | sort -u | wc -l) == 2 ]]; }
wait_for "two nodes" two_nodes
echo "Slurm has two nodes"

cat > "$folder/sweep.toml" << 'SCENARIO'
repetitions = 4
[transfer]
bytes = 100_000_000
limit_s = 600
[wireless]
rate_mbit_per_s = 20
delay_ms = 20
loss = 0.001
[[sweep]]
name = "scheme"
key = "gateway.scheme"
values = ["none", "hold", "auto"]
[[sweep]]
name = "delay_ms"
key = "wireless.delay_ms"
values = [10, 40]
SCENARIO
cd "$folder"
"$program" lab run sweep.toml --out here.jsonl > /dev/null 2>> log

slurm=("$program" lab run sweep.toml --executor slurm --workers 4 --out)
compare() {
    cmp here.jsonl "$1"
    [[ ! -e $1.parts ]]
    echo "$2: $(wc -l < "$1") results, as without Slurm"
}

"${slurm[@]}" plain.jsonl > /dev/null 2>> log
compare plain.jsonl "four workers on two nodes"

# The process of a worker that has written a result and continues.
worker_of() { pgrep -f "[-]-only $folder/$1.parts/runs-2.txt"; }
began() { [[ -s $1.parts/part-2.jsonl ]] && worker_of "$1" > /dev/null; }

"${slurm[@]}" lost.jsonl > /dev/null 2> lost.err &
pids+=($!)
wait_for "a worker" began lost.jsonl
kill -KILL "$(worker_of lost.jsonl)"
wait "${pids[-1]}"
unset 'pids[-1]'
grep "missing: submitted again" lost.err
compare lost.jsonl "a worker was killed"

"${slurm[@]}" both.jsonl > /dev/null 2>> log &
pids+=($!)
wait_for "a worker" began both.jsonl
kill -KILL "${pids[-1]}" "$(worker_of both.jsonl)"
wait "${pids[-1]}" 2> /dev/null || true
unset 'pids[-1]'
"${slurm[@]}" both.jsonl --resume > /dev/null 2> both.err || { cat both.err >&2; exit 1; }
grep -E "waits for job|tasks" both.err
compare both.jsonl "a worker and the command were killed, then --resume"

# All processes that Slurm started on n2.
on_lost_node() {
    # A process may end while its file is read.
    grep --files-with-matches --null-data --no-messages '^SLURMD_NODENAME=n2$' /proc/[0-9]*/environ || true
}
# Some tasks run there, and there are results.
shared() { [[ -n $(on_lost_node) && -n $(find "$1.parts" -name 'part-*.jsonl' -size +0 2> /dev/null) ]]; }

"${slurm[@]}" node.jsonl > /dev/null 2> node.err &
command_of_node=$!
pids+=("$command_of_node")
wait_for "a worker on n2" shared node.jsonl
# First n2's slurmd, then the processes that guard its tasks, then the tasks.
kill -KILL "${pids[3]}"
processes=$(on_lost_node | tr -dc '0-9\n')
[[ -n $processes ]]
for process in $processes; do
    parent=$(ps -o ppid= -p "$process" | tr -d ' ' || true)
    [[ $(ps -o comm= -p "${parent:-0}" || true) != slurmstepd ]] || kill -KILL "$parent" 2> /dev/null || true
done
# shellcheck disable=SC2086
kill -KILL $processes 2> /dev/null || true
lost() { [[ $(sinfo --noheader --nodes=n2 --format=%T) == down* ]]; }
wait_for "the end of n2" lost
wait "$command_of_node" || { cat node.err >&2; exit 1; }
unset 'pids[-1]'
grep -E "missing: submitted again" node.err || grep -h "requeue" -- *.log | tail -n 1
compare node.jsonl "a node was lost with its tasks"
