#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows that tests of fail-open behaviour can fail: breaks one property at a time, and runs its test.
#
#     scripts/faults.sh [NAME...]     all of scripts/faults/*.patch unless some are named
#     scripts/faults.sh --check       only whether each patch applies: seconds
#
# The first lines of a patch are the claim that it breaks and the arguments of `cargo test` that name
# the test. Each test has to pass without the fault, and to run and fail with it: a program that does
# not compile is no proof. With a third line `program: none` the program is not built: neither the test nor
# a virtual kernel for it needs it. Works on a copy of the files that git knows, in target/faults.
#
# The last line is `N faults, N caught`.

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

readonly source=$PWD
readonly folder="${CARGO_TARGET_DIR:-$source/target}/faults"

check=no
if [ "${1:-}" = --check ]; then
    check=yes
    shift
fi
patches=("${@/%/.patch}")
patches=("${patches[@]/#/$source/scripts/faults/}")
[ $# -gt 0 ] || patches=("$source"/scripts/faults/*.patch)

field() { sed -n "s/^$1: //p;/^diff /q" "$2"; }

for patch in "${patches[@]}"; do
    for name in claim test; do
        [ -n "$(field $name "$patch")" ] || {
            echo "$patch: no line '$name: '; add what it breaks and which test notices it" >&2
            exit 1
        }
    done
    git apply --check "$patch" || {
        echo "$patch: does not apply; make the same fault in today's files" >&2
        exit 1
    }
done
if [ $check = yes ]; then
    echo "${#patches[@]} faults apply"
    exit 0
fi

scripts/packages.sh test
scripts/toolchain.sh
rm -rf "$folder/tree"
mkdir -p "$folder/tree"
# Times of files are preserved: cargo builds only what the fault has changed.
git ls-files -z | tar --create --null --files-from=- | tar --extract --directory="$folder/tree"
cd "$folder/tree"
export CARGO_TARGET_DIR="$folder/build"

# The verdict on a test: passed, FAILED, skipped, or broken (it did not run).
run_test() {
    local log=$1 program=$3 arguments
    read -ra arguments <<<"$2"
    : >"$log"
    if [ "$program" != none ] && ! cargo build --locked --package holdfast >>"$log" 2>&1; then
        echo broken
        return
    fi
    cargo test --locked "${arguments[@]}" -- --show-output >>"$log" 2>&1 || true
    if grep -q 'SKIPPED' "$log"; then
        echo skipped
    elif grep -Eq '^test result: FAILED\. .* [1-9][0-9]* failed' "$log"; then
        echo FAILED
    elif grep -Eq '^test result: ok\. [1-9]' "$log"; then
        echo passed
    else
        echo broken
    fi
}

applied=
restore() { [ -z "$applied" ] || patch --quiet --reverse --strip=1 <"$applied"; applied=; }
trap restore EXIT
trap 'exit 130' INT TERM

caught=0
printf '| fault | breaks | its test | without | with |\n| --- | --- | --- | --- | --- |\n'
for patch in "${patches[@]}"; do
    name=$(basename "$patch" .patch)
    test=$(field test "$patch")
    program=$(field program "$patch")
    without=$(run_test "$folder/$name.without.log" "$test" "$program")
    patch --quiet --strip=1 <"$patch"
    applied=$patch
    with=$(run_test "$folder/$name.with.log" "$test" "$program")
    restore
    [ "$without $with" != 'passed FAILED' ] || caught=$((caught + 1))
    # shellcheck disable=SC2016 # a code span
    printf '| `%s` | %s | `%s` | %s | %s |\n' "$name" "$(field claim "$patch")" "${test##* }" "$without" "$with"
done
echo "${#patches[@]} faults, $caught caught"
[ $caught -eq ${#patches[@]} ]
