#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Gives hostile input to the targets of crates/fuzz, guided by coverage (libFuzzer), one target a
# processor at a time.
#
#     scripts/fuzz.sh [-s SECONDS] [TARGET...]     60 seconds each; all targets unless some are named
#     scripts/fuzz.sh -m [TARGET...]               takes what was found into crates/fuzz/corpus, minimised
#
# A run begins with the inputs in crates/fuzz/corpus and those of earlier runs, in target/fuzzing.
# An input that fails is kept there, and the command that replays it is printed. The last line is
# `N targets, N failed`.
#
# HOLDFAST_FUZZ_JOBS      targets at a time; one a processor unless set

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

readonly corpora=crates/fuzz/corpus
target_dir="${CARGO_TARGET_DIR:-target}"
readonly found="$target_dir/fuzzing"
# Inputs of the corpus are short: findings are easier to understand, and run faster.
readonly bytes_max=512
# The most inputs of one target in the repository.
readonly kept_max=8

usage() {
    echo "usage: $0 [-s SECONDS] [-m] [TARGET...]" >&2
    exit 2
}

seconds=60
mode=run
while getopts s:m option; do
    case $option in
    s) seconds=$OPTARG ;;
    m) mode=minimise ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
readonly seconds mode

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(find crates/fuzz/src/bin -name '*.rs' -printf '%f\n' | sed 's/\.rs$//' | sort)
fi
readonly targets
for target in "${targets[@]}"; do
    [ -e "crates/fuzz/src/bin/$target.rs" ] || usage
done

scripts/packages.sh fuzz
scripts/toolchain.sh

# A folder of its own: cargo does not know which wrapper built a crate.
bins=()
for target in "${targets[@]}"; do bins+=(--bin "$target"); done
RUSTC_WRAPPER="$PWD/scripts/coverage_rustc.sh" cargo build --locked --profile fuzz --target-dir "$found/build" \
    --package holdfast-fuzz --features libfuzzer "${bins[@]}"
readonly programs="$found/build/fuzz"

# Large blocks of memory are reused instead of mapped anew for each input.
export MALLOC_MMAP_THRESHOLD_=$((1 << 25)) MALLOC_TRIM_THRESHOLD_=$((1 << 28))

# The fuzzer's options for all runs. The weights of the entropic schedule are off: they cost as much as an execution.
options=("-max_len=$bytes_max" -entropic=0 -timeout=60 -rss_limit_mb=2048)

run() {
    local target="$1" status=0
    mkdir -p "$found/$target/inputs" "$found/$target/failures"
    "$programs/$target" "${options[@]}" "-max_total_time=$seconds" -print_final_stats=1 \
        "-artifact_prefix=$found/$target/failures/" \
        "$found/$target/inputs" "$corpora/$target" "$found/$target/failures" \
        >"$found/$target/log" 2>&1 || status=$?
    echo $status >"$found/$target/status"
}

# Reduces a target's inputs: greedily selects those that together reach the most features.
minimise() {
    local target="$1" merged="$found/$1/merged" file
    rm -rf "$merged" && mkdir -p "$merged" "$found/$target/inputs"
    rm -f "$found/$target/merge"
    "$programs/$target" "${options[@]}" -set_cover_merge=1 -use_counters=0 "-merge_control_file=$found/$target/merge" \
        "$merged" "$found/$target/inputs" "$corpora/$target" >"$found/$target/log" 2>&1
    # The file lists the number of inputs, their paths, and the features that each input reaches.
    mapfile -t chosen < <(awk -v max=$kept_max '
        NR == 1 { files = $1; next }
        NR > 2 && NR <= files + 2 { path[NR - 3] = $0; next }
        $1 == "FT" { for (i = 3; i <= NF; i++) reaches[$2, ++count[$2]] = $i }
        END {
            for (kept = 0; kept < max; kept++) {
                best = -1; most = 0
                for (file in count) {
                    new = 0
                    for (i = 1; i <= count[file]; i++) new += !(reaches[file, i] in reached)
                    if (new > most || new == most && most && path[file] < path[best]) { best = file; most = new }
                }
                if (best < 0) exit
                for (i = 1; i <= count[best]; i++) reached[reaches[best, i]]
                print path[best]
            }
        }' "$found/$target/merge")
    rm -rf "$merged" && mkdir "$merged"
    # An input named after its bug stays.
    local -r is_chosen='^[0-9a-f]{40}$'
    for file in "${chosen[@]}"; do
        [[ ${file##*/} =~ $is_chosen ]] && cp "$file" "$merged"
    done
    find "$corpora/$target" -type f -regextype posix-extended -regex '.*/[0-9a-f]{40}' -delete
    find "$merged" -type f -exec mv -t "$corpora/$target" {} +
    echo "$target: $(find "$corpora/$target" -type f | wc -l) inputs, $(cat "$corpora/$target"/* | wc -c) bytes"
}

# The targets' files, in memory if the system has such a folder.
TMPDIR="$(mktemp -d -p "$([ -d /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" holdfast-fuzz.XXXXXX)"
export TMPDIR
# All processes end with this script.
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$TMPDIR"' EXIT

if [ $mode = minimise ]; then
    for target in "${targets[@]}"; do minimise "$target"; done
    exit
fi

readonly jobs_max="${HOLDFAST_FUZZ_JOBS:-$(nproc)}"
running=0
for target in "${targets[@]}"; do
    if [ $running -eq "$jobs_max" ]; then
        wait -n
        running=$((running - 1))
    fi
    echo "fuzz.sh: $target, $seconds s" >&2
    run "$target" &
    running=$((running + 1))
done
wait

# The last number with this name in a target's log.
stat() { sed -n "s/.*\b$2: *\([0-9]*\).*/\1/p" "$found/$1/log" | tail -n 1; }

failed=0
printf '\n%-11s %12s %9s %9s %9s %6s  %s\n' target executions 'a second' coverage features new result
for target in "${targets[@]}"; do
    result=passed
    if [ "$(cat "$found/$target/status")" -ne 0 ]; then
        result=FAILED
        failed=$((failed + 1))
    fi
    printf '%-11s %12s %9s %9s %9s %6s  %s\n' "$target" "$(stat "$target" number_of_executed_units)" \
        "$(stat "$target" average_exec_per_sec)" "$(stat "$target" cov)" "$(stat "$target" ft)" \
        "$(stat "$target" new_units_added)" $result
done
for target in "${targets[@]}"; do
    [ "$(cat "$found/$target/status")" -ne 0 ] || continue
    printf '\n%s:\n' "$target"
    grep -m 5 -E -A 2 "panicked at|ERROR: |SUMMARY: " "$found/$target/log" || tail -n 20 "$found/$target/log"
    input="$(sed -n 's/.*Test unit written to //p' "$found/$target/log" | tail -n 1)"
    echo "replay: $programs/$target ${input:-(no input)}"
done
echo "${#targets[@]} targets, $failed failed"
[ $failed -eq 0 ]
