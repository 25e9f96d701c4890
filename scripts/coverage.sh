#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs every test with instrumented programs, also the tests in namespaces and in the virtual kernel. Prints the share
# of the lines and branches that were executed.
#
#     scripts/coverage.sh             tests, then the tables
#     scripts/coverage.sh tables      the tables of the last run
#
# The first table has the crates, the second one the files with less than 90 % of their lines.
#
# Everything is in a target folder of its own, target/coverage.

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
readonly version=0.9.1

scripts/packages.sh test
scripts/toolchain.sh
rustup component add llvm-tools >/dev/null
[ "$(cargo llvm-cov --version 2>/dev/null)" = "cargo-llvm-cov $version" ] ||
    cargo install --locked "cargo-llvm-cov@$version"

# Branches are counted by an option of the compiler that is not stable.
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR="$PWD/${CARGO_TARGET_DIR:-target}/coverage"
eval "$(cargo llvm-cov show-env --sh --branch 2>/dev/null)"
# The counters are in a mapped file (%c), so a killed program reports too. All runs of a program share the file (%m). If
# several users run a program, only the first user's runs count.
export RUSTFLAGS="${RUSTFLAGS:-} -C llvm-args=-runtime-counter-relocation"
export LLVM_PROFILE_FILE="$CARGO_TARGET_DIR/holdfast-%m%c.profraw"

tests=0
if [ "${1:-}" != tables ]; then
    # Programs that a test starts as another user write there too.
    mkdir -p "$CARGO_TARGET_DIR" && chmod 1777 "$CARGO_TARGET_DIR"
    find "$CARGO_TARGET_DIR" -name '*.profraw' -delete 2>/dev/null || true
    HOLDFAST_TEST_LIMIT_S=7200 scripts/test.sh || tests=$?
fi

# A program that was killed while it wrote leaves an unreadable file.
readonly report="$CARGO_TARGET_DIR/coverage.txt"
cargo llvm-cov report --failure-mode all --branch --summary-only >"$report"

# Columns 8 and 9 of the report: lines, lines missed; 11 and 12: branches.
printf '\n| crate | lines | of them run | branches | of them taken |\n| --- | ---: | ---: | ---: | ---: |\n'
awk '$1 ~ /\.rs$/ { split($1, path, "/"); crate = path[1]
        lines[crate] += $8; missed[crate] += $9; branches[crate] += $11; untaken[crate] += $12 }
    function percent(all, left) { return all ? sprintf("%.1f %%", 100 * (all - left) / all) : "" }
    END { for (crate in lines)
        printf "| %s | %d | %s | %d | %s |\n", crate, lines[crate], percent(lines[crate], missed[crate]),
            branches[crate], percent(branches[crate], untaken[crate]) }' "$report" | sort
printf '\n| file | lines | of them run |\n| --- | ---: | ---: |\n'
awk '$1 ~ /\.rs$/ && $9 > $8 / 10 {
    printf "| %s | %d | %.1f %% |\n", $1, $8, 100 * ($8 - $9) / $8 }' "$report" | sort -t '|' -k 4 -n
exit $tests
