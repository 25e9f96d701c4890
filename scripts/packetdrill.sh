#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the TCP scripts of packetdrill through the gateway. A script is a list of segments, system calls
# and times; packetdrill checks that Linux's TCP does exactly what is written there. The gateway is
# attached to packetdrill's device, so it stands between script and TCP.
#
#     scripts/packetdrill.sh [-p PROGRAM] FOLDER [SCHEME...]
#     scripts/packetdrill.sh [-p PROGRAM] -s SCRIPT FOLDER [SCHEME...]     one script, and all its segments
#
# FOLDER is gtests/net of https://github.com/google/packetdrill. The runs use a copy. packetdrill is
# built unless FOLDER/packetdrill has the program. SCRIPT is a path in FOLDER. SCHEMEs are hold, snoop and
# mtcp-plus unless given. PROGRAM is holdfast; target/release/holdfast is built unless it is given.
#
# Each script runs first without a gateway, and if it passes, with each scheme. Each run has a virtual
# kernel of its own (`holdfast lab setup`). There time is virtual, so the load of this machine changes no
# verdict, and nothing outlives the kernel.
#
# Exceptions are in scripts/packetdrill.exceptions. A failure that is not listed there makes the exit
# status 1. What packetdrill printed is in target/packetdrill/.

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/local/sbin:/usr/sbin:/sbin"

readonly exceptions=scripts/packetdrill.exceptions
# Limit of the real time of one run. The kernel ends then; the longest run takes a second on an idle machine.
readonly limit_s=600

usage() {
    sed -n 's/^# \{0,1\}//; 4,21p' "$0" >&2
    exit 2
}

program=
single=
while getopts p:s: option; do
    case "$option" in
    p) program="$OPTARG" ;;
    s) single="$OPTARG" ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
if [ $# -lt 1 ] || [ ! -d "$1/tcp" ] || [ ! -f "$1/common/defaults.sh" ]; then usage; fi
folder="$(realpath "$1")"
readonly folder
shift
schemes=("$@")
[ ${#schemes[@]} -gt 0 ] || schemes=(hold snoop mtcp-plus)
readonly schemes

scripts/packages.sh packetdrill
if [ -z "$program" ]; then
    scripts/toolchain.sh
    cargo build --locked --release --package holdfast
    program="${CARGO_TARGET_DIR:-target}/release/holdfast"
fi
program="$(realpath "$program")"
readonly program
"$program" lab setup

output="$(realpath -m "${CARGO_TARGET_DIR:-target}")/packetdrill"
readonly output
mkdir -p "$output"
exec 8>"$output.lock"
flock -n 8 || {
    echo "packetdrill.sh: another run writes to $output" >&2
    exit 1
}
rm -rf "$output"
mkdir "$output"

work="$(mktemp -d)"
readonly work
leave() {
    # A virtual kernel ends with the process that started it.
    local running
    mapfile -t running < <(jobs -p)
    if [ ${#running[@]} -gt 0 ]; then
        kill -TERM "${running[@]}" 2>/dev/null || true
        wait 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Our copy of the suite. Each test first runs defaults.sh, which sets thirty variables of the kernel. A program for each
# would take most of a run's time. At its end our copy starts the gateway.
cp -a "$folder/common" "$folder/tcp" "$work/"
cat scripts/packetdrill/sysctl.sh "$folder/common/defaults.sh" scripts/packetdrill/attach.sh \
    >"$work/common/defaults.sh"
if [ -x "$folder/packetdrill/packetdrill" ]; then
    cp "$folder/packetdrill/packetdrill" "$work/"
else
    cp -a "$folder/packetdrill" "$work/sources"
    echo 'packetdrill.sh: building packetdrill' >&2
    if ! (cd "$work/sources" && ./configure && make packetdrill) >"$output/build.log" 2>&1; then
        echo "packetdrill.sh: packetdrill was not built; see $output/build.log" >&2
        exit 1
    fi
    cp "$work/sources/packetdrill" "$work/"
fi
cc -O2 -Wall -Wextra -Werror -shared -fPIC -o "$work/clock.so" scripts/packetdrill/clock.c

# The script that a virtual kernel runs.
cat >"$work/run" <<'RUN'
cd "$1" && shift
status=0
LD_PRELOAD=$HOLDFAST_CLOCK "$@" || status=$?
if [ $status -ne 0 ] && [ -e /run/gateway.log ]; then
    echo 'The gateway:'
    cat /run/gateway.log
fi >&2
exit $status
RUN

# Runs a script; an empty scheme means no gateway. Further arguments are options of packetdrill.
passes() {
    local script=$1 scheme=$2 log=$3
    local options=("${@:4}" --send_omit_free)
    # Values of names in scripts, and of addresses that the script does not choose: as in the suite's own runner.
    case "$script" in
    *v6.pkt) options+=(--ip_version=ipv6) ;;
    *)
        options+=(--ip_version=ipv4 -D TFO_COOKIE=3021b9d889017eeb -D CODE=host_unreachable
            -D CMSG_LEVEL_IP=SOL_IP -D CMSG_TYPE_RECVERR=IP_RECVERR)
        grep -q '^--local_ip=' "$work/$script" ||
            options+=(--local_ip=192.168.0.1 --gateway_ip=192.168.0.1 --netmask_ip=255.255.0.0
                --remote_ip=192.0.2.1)
        ;;
    esac
    # The tolerance (the script's own, or packetdrill's 4 ms) is for a kernel with a tick of 1 ms. The virtual kernel's
    # tick is 10 ms, and TCP's timers end with a tick.
    local tolerance_us
    tolerance_us=$(sed -n 's/^--tolerance_usecs=\([0-9]*\).*/\1/p' "$work/$script" | head -n 1)
    options+=("--tolerance_usecs=$((${tolerance_us:-4000} + 10000))")
    # It ends also if this shell is killed.
    setpriv --pdeathsig TERM "$program" lab exec --limit-s "$limit_s" --env "HOLDFAST_SCHEME=$scheme" \
        --env "HOLDFAST_PROGRAM=$program" --env "HOLDFAST_CLOCK=$work/clock.so" -- \
        sh "$work/run" "$work/${script%/*}" "$work/packetdrill" "${options[@]}" "${script##*/}" \
        >"$log" 2>&1 </dev/null &
    local status=0
    wait $! || status=$?
    # There is no verdict: the kernel did not start, or reached the limit.
    if ! tail -n 1 "$log" | grep -q '^virtual kernel: '; then
        echo "packetdrill.sh: $script did not come to its end; see $log" >&2
        exit 1
    fi
    return $status
}

if [ -n "$single" ]; then
    status=0
    for scheme in '' "${schemes[@]}"; do
        echo "== ${scheme:-no gateway}"
        passes "$single" "$scheme" "$output/single.log" -v || status=1
        cat "$output/single.log"
    done
    exit $status
fi

# The reason of an exception; fails if there is none.
reason_of() {
    awk -v script="$1" -v scheme="$2" '
        $1 == script && ($2 == scheme || $2 == "all") {
            sub(/^[^ ]+ +[^ ]+ +/, ""); print; found = 1; exit
        }
        END { exit !found }' "$exceptions"
}

# All runs of a script. It writes the verdicts, one for each scheme, to a file.
run_script() {
    local script=$1 log=$output/$1 scheme verdict verdicts=()
    mkdir -p "$log"
    if passes "$script" '' "$log/none.log"; then
        for scheme in "${schemes[@]}"; do
            verdict=FAIL
            if passes "$script" "$scheme" "$log/$scheme.log"; then
                verdict=pass
            elif reason_of "$script" "$scheme" >/dev/null; then
                verdict=exception
            fi
            verdicts+=("$verdict")
        done
        echo "$script: ${verdicts[*]}"
    else
        echo "$script: fails without a gateway"
    fi
    echo "${verdicts[*]}" >"$log/verdicts"
}

mapfile -t scripts < <(cd "$work" && find tcp -name '*.pkt' | LC_ALL=C sort)
echo "Verdicts: ${schemes[*]}"
busy=0
for script in "${scripts[@]}"; do
    if [ "$busy" -eq "$(nproc)" ]; then
        wait -n
        busy=$((busy - 1))
    fi
    run_script "$script" &
    busy=$((busy + 1))
done
wait

status=0
without=0
declare -A count=()
listed=()
stale=()
printf '\n%-70s' script
printf ' %-10s' "${schemes[@]}"
for script in "${scripts[@]}"; do
    read -ra verdicts <"$output/$script/verdicts"
    [ ${#verdicts[@]} -gt 0 ] || continue
    without=$((without + 1))
    printf '\n%-70s' "$script"
    printf ' %-10s' "${verdicts[@]}"
    for i in "${!schemes[@]}"; do
        scheme=${schemes[i]}
        verdict=${verdicts[i]}
        count[$scheme $verdict]=$((${count[$scheme $verdict]:-0} + 1))
        reason="$(reason_of "$script" "$scheme" || true)"
        case "$verdict" in
        FAIL) status=1 ;;
        exception) listed+=("$script $scheme: $reason") ;;
        pass) [ -z "$reason" ] || stale+=("$script $scheme: $reason") ;;
        esac
    done
done
echo
if [ ${#listed[@]} -gt 0 ]; then
    printf '\nExceptions:\n'
    printf '%s\n' "${listed[@]}"
fi
if [ ${#stale[@]} -gt 0 ]; then
    printf '\nExceptions that are stale, because the script passes:\n'
    printf '%s\n' "${stale[@]}"
fi
printf '\n%d scripts, %d pass without a gateway\n' ${#scripts[@]} "$without"
for scheme in "${schemes[@]}"; do
    printf '%-10s %d passed, %d exceptions, %d failed\n' "$scheme" "${count[$scheme pass]:-0}" \
        "${count[$scheme exception]:-0}" "${count[$scheme FAIL]:-0}"
done
[ "$without" -gt 0 ] || status=1
exit $status
