#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds and runs every test of the workspace.
#
#     scripts/test.sh [arguments of cargo test]       such as: -p holdfast-core
#
# Tests that judge a time run in the virtual kernel (`holdfast lab setup`), which is built first: about
# twelve minutes, once for each user. Where it cannot be built they are skipped.
#
# For the whole workspace the tests in namespaces run beside all others. All except those of running_kernel.rs run in
# virtual kernels, so the two lists disturb each other no more than any load does. The output of the tests in namespaces
# comes last.
#
# Other tests in namespaces run directly as root. For other users they run in a user namespace, if the kernel allows
# that. BPF programs cannot be loaded there: the tests that need them report "SKIPPED" with the reason. With
# HOLDFAST_NO_SKIP=1 a skipped test is a failure.
#
# What a test printed is shown if it failed. All is in target/test.log. The last lines are the
# slowest twenty tests, the tests skipped, those that failed, and `N passed, N failed`.
#
# HOLDFAST_TEST_PROFILE   cargo profile; dev (optimised, with assertions) unless set
# HOLDFAST_TEST_LIMIT_S   the whole run is ended after this many seconds; 3600 unless set

set -euo pipefail
shopt -s extglob
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/local/sbin:/usr/sbin:/sbin"

readonly profile="${HOLDFAST_TEST_PROFILE:-dev}"
readonly limit_s="${HOLDFAST_TEST_LIMIT_S:-3600}"
readonly no_skip="${HOLDFAST_NO_SKIP:-0}"
readonly log="${CARGO_TARGET_DIR:-target}/test.log"

scripts/packages.sh test
scripts/toolchain.sh

which_tests=("$@")
[ $# -gt 0 ] || which_tests=(--workspace)
readonly which_tests
mkdir -p "$(dirname "$log")"
: >"$log"

# Built first, while the network is available: the tests may run without it.
cargo test --locked --profile "$profile" "${which_tests[@]}" --no-run

case "${which_tests[*]} " in
# These crates use neither time nor the system.
*holdfast-@(core|files|link|settings|sim|testbed|wire)' '*) ;;
*)
    # The other crates' tests start the program, which cargo builds for the whole workspace.
    [ $# -eq 0 ] || cargo build --locked --profile "$profile" --package holdfast
    case "$profile" in
    dev | test) folder=debug ;;
    *) folder=$profile ;;
    esac
    "${CARGO_TARGET_DIR:-target}/$folder/holdfast" lab setup ||
        echo 'test.sh: no virtual kernel: the tests that judge a time will be skipped' >&2
    ;;
esac

# Each test program also prints the duration of each test.
triple="$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')"
export "CARGO_TARGET_${triple}_RUNNER=$PWD/scripts/timed.sh"

isolated=no
isolate=()
if [ "$(id -u)" -ne 0 ]; then
    if unshare --user --map-root-user --net --mount true 2>/dev/null; then
        isolated=yes
        isolate=(unshare --user --map-root-user --net --mount
            sh -c 'ip link set lo up && exec "$@"' sh)
    elif [ "$no_skip" = 1 ]; then
        echo 'test.sh: HOLDFAST_NO_SKIP=1 needs root or user namespaces' >&2
        exit 1
    else
        echo 'test.sh: no root and no user namespaces: tests of namespaces will be skipped' >&2
    fi
fi

# What a test could leave behind on this machine, one item a line.
machine_state() {
    ip -o link show | awk -F ': ' '{ sub(/@.*/, "", $2); print "device " $2 }'
    ip netns list | awk '{ print "namespace " $1 }'
    ip -4 rule show | sed 's/^/rule /'
    ip -6 rule show | sed 's/^/rule /'
    nft list tables 2>/dev/null || true
    # Programs built here that are still running.
    local process
    for process in /proc/[0-9]*; do
        case "$(readlink "$process/exe" 2>/dev/null)" in
        "$(dirname "$(readlink -f "$log")")"/*/holdfast*) echo "process ${process#/proc/}" ;;
        esac
    done
}
before="$(machine_state | sort)"

# The log without the output of passed tests, which is between "successes:" and the next headline.
without_successes() {
    awk '/^successes:$/ { hidden = 1 }
        /^(failures:$|test result: )/ { hidden = 0 }
        !hidden { print; fflush() }'
}

# Arguments: which tests. --show-output prints the output of passed tests: skipped tests report there. A program in the
# background ignores SIGINT and SIGQUIT unless they are reset.
run_tests() {
    exec env --default-signal=INT,QUIT timeout --kill-after=30 "$limit_s" "${isolate[@]}" \
        cargo test --locked --profile "$profile" --no-fail-fast "$@" -- --show-output 2>&1
}

status=0
if [ $# -eq 0 ]; then
    readonly beside=namespaces
    # With the features of the whole workspace, with which it was built.
    run_tests --workspace --test "$beside" >"$log.$beside" &
    beside_process=$!
    trap 'kill "$beside_process" 2>/dev/null || true; rm -f "$log.$beside"' EXIT
    export HOLDFAST_TEST_WITHOUT=$beside
fi
(run_tests "${which_tests[@]}") | tee "$log" | without_successes || status=$?
if [ $# -eq 0 ]; then
    ended=0
    wait "$beside_process" || ended=$?
    # 124: the limit ended the run.
    [ $ended -eq 0 ] || [ $status -eq 124 ] || status=$ended
    trap - EXIT
    tee -a "$log" <"$log.$beside" | without_successes
    rm "$log.$beside"
fi
[ $status -ne 124 ] || echo "test.sh: ended after the limit of $limit_s s" >&2

# A program that a test ended may run a moment longer: at most 30 s.
for _ in {1..60}; do
    left_behind="$(comm -13 <(echo "$before") <(machine_state | sort))"
    if [ $isolated = yes ] || [ -z "$left_behind" ]; then break; fi
    sleep 0.5
done
if [ $isolated = no ] && [ -n "$left_behind" ]; then
    echo 'test.sh: new on this machine since the tests began:' >&2
    echo "$left_behind" >&2
    # Otherwise it may belong to another program.
    [ "$no_skip" != 1 ] || status=1
fi

# test a::b ... ok <1.234s>
printf '\nThe slowest tests:\n'
sed -n 's/^test \(.*\) \.\.\. \(ok\|FAILED\) <\([0-9.]*\)s>$/\3 s  \1/p' "$log" | sort -rn | awk 'NR <= 20'

skipped="$(grep -o 'SKIPPED .*' "$log" | sort -u || true)"
ignored="$(awk '/^test result:/ { n += $8 } END { print n + 0 }' "$log")"
if [ -n "$skipped" ]; then
    printf '\n%s\n' "$skipped"
    [ "$no_skip" != 1 ] || status=1
fi
if [ "$no_skip" = 1 ] && [ "$ignored" -ne 0 ]; then
    echo "test.sh: $ignored tests are marked as ignored" >&2
    status=1
fi

failures="$(grep -E '^test .* FAILED( <|$)' "$log" || true)"
if [ -n "$failures" ]; then
    printf '\nFailed, and where it panicked:\n%s\n' "$failures"
    grep -A 2 -E "^thread '.*' .*panicked at " "$log" | cut -c 1-300 | awk 'NR <= 100'
fi

# test result: ok. 12 passed; 0 failed; 1 ignored; ...
counts="$(awk '/^test result:/ { passed += $4; failed += $6 } END { print passed + 0, failed + 0 }' "$log")"
read -r passed failed <<<"$counts"
if [ "$passed" -eq 0 ]; then
    echo 'test.sh: no test passed' >&2
    [ $status -ne 0 ] || status=1
fi
echo "$passed passed, $failed failed"
exit $status
