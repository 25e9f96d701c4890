#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every rule of this repository that a program can check (docs/testing.md lists them).
# All checks run; the exit status is not 0 if any of them found something.

# No path in this repository has a space.
# shellcheck disable=SC2046

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

readonly lines_max=500
failed=0

# Runs one check: a name, then the command. A check fails if the command's status is not 0.
check() {
    local name="$1"
    shift
    echo "lint: $name" >&2
    if ! "$@"; then
        echo "lint: FAILED: $name" >&2
        failed=1
    fi
}

# A check by search: passes if the command prints nothing, otherwise shows its output.
finds_nothing() {
    local found
    found="$("$@" || true)"
    [ -z "$found" ] && return 0
    echo "$found" >&2
    return 1
}

rust_files() { find crates -name '*.rs' -not -path '*/target/*' | sort; }
bpf_files() { find bpf \( -name '*.c' -o -name '*.h' \) | sort; }
scripts() {
    find scripts .ci Makefile -type f -not -name '*.circles' -not -name '*.exceptions' -not -name '*.patch' \
        -not -name '*.json' | sort
}

# Shell scripts that routers and package managers run.
foreign_scripts() { grep -r -l '^#!/bin/sh' packaging dist | sort; }

# --- sources -------------------------------------------------------------------------------

missing_licence() {
    local file
    for file in $(rust_files); do
        [ "$(head -n 1 "$file")" = '// SPDX-License-Identifier: Apache-2.0' ] ||
            echo "$file:1: the first line is not the Apache-2.0 SPDX line"
    done
    for file in $(bpf_files); do
        head -n 1 "$file" | grep -E -q 'SPDX-License-Identifier: GPL-2\.0(-only)?( |$)' ||
            echo "$file:1: the first line is not the GPL-2.0 SPDX line"
    done
    for file in $(scripts) $(foreign_scripts); do
        head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
            echo "$file:1: no Apache-2.0 SPDX line among the first two"
    done
}

# Files of tests need no description: that of the tested file applies.
missing_module_doc() {
    local file
    for file in $(rust_files | grep -v '/tests\.rs$'); do
        awk '/^\/\/!/ { found = 1; exit } /^(use|mod|pub|fn|struct|enum|impl|const) / { exit }
             END { exit !found }' "$file" || echo "$file:1: no module documentation (//!)"
    done
}

# Counts the lines before the tests at the end of a file; files of tests are exempt.
long_files() {
    local file
    for file in $(rust_files | grep -v -E '(/tests/|/tests\.rs$|_tests\.rs$)') $(bpf_files); do
        awk -v file="$file" -v max=$lines_max '
            /^#\[cfg\(test\)\]/ { marked = 1; lines++; next }
            marked && /^(pub\(crate\) )?mod [a-z_]+ \{/ { exit }
            { marked = 0; lines++ }
            END { if (lines >= max) print file ":" lines ": " lines " lines without tests; the limit is " max }
        ' "$file"
    done
}

unfinished() {
    grep -n -E '(^|[^[:alnum:]_])(TODO|FIXME|XXX:|HACK:|todo!|unimplemented!)' $(rust_files) $(bpf_files)
}

# `unsafe` is allowed only where the program meets Linux, and each block states its reason.
unsafe_outside_net() {
    grep -n -E '(^|[^_[:alnum:]])(unsafe *(\{|\(|fn |impl[ <]|extern |trait )|unsafe_code)' $(rust_files | grep -v '^crates/net/') |
        grep -v -E '^[^:]+:[0-9]+: *//'
}

lints_of_workspace() {
    local manifest
    for manifest in crates/*/Cargo.toml; do
        grep -A 1 -x '\[lints\]' "$manifest" | grep -q -x 'workspace = true' ||
            echo "$manifest: does not take the workspace's lints"
    done
}

empty_names() {
    find crates bpf \( -name 'utils*' -o -name 'util.rs' -o -name 'common*' -o -name 'helper*' -o -name 'manager*' \
        -o -name 'misc*' -o -name 'mod.rs' \) -not -path '*/target/*' | sed 's/$/: an empty name/'
    grep -n -E 'fn test_' $(rust_files) | sed 's/$/   <- a test is a sentence without test_/'
}

# A middle node has two of each: it names FH and MH, downlink and uplink.
end_to_end_names() {
    grep -n -i -E '(^|[^[:alnum:]])(client|server|local|remote)(_[a-z]|[^[:alnum:]_-]*:)' \
        $(rust_files | grep -E '^crates/core/') | grep -v -E '^[^:]+:[0-9]+: *//'
}

# A test waits for a condition with a deadline, never for a length of time.
sleeping_tests() {
    grep -n -E 'sleep\(' $(rust_files | grep -E '^crates/(wire|core|link|sim)/')
}

# --- crates --------------------------------------------------------------------------------

# The crates that each crate may use: dependencies go in one direction.
allowed_for() {
    case "$1" in
    holdfast-settings | holdfast-wire) echo '' ;;
    holdfast-files) echo 'holdfast-link' ;;
    holdfast-link) echo 'holdfast-wire' ;;
    holdfast-core) echo 'holdfast-settings holdfast-wire' ;;
    holdfast-sim) echo 'holdfast-settings holdfast-wire holdfast-core holdfast-link' ;;
    holdfast-net) echo 'holdfast-settings holdfast-wire holdfast-core' ;;
    holdfast-fuzz) echo 'holdfast-settings holdfast-wire holdfast-core holdfast-net' ;;
    holdfast-testbed) echo 'holdfast-link holdfast-net' ;;
    holdfast-lab) echo 'holdfast-files holdfast-settings holdfast-wire holdfast-core holdfast-link holdfast-sim holdfast-net holdfast-testbed' ;;
    holdfast) echo 'holdfast-files holdfast-settings holdfast-wire holdfast-core holdfast-link holdfast-sim holdfast-net holdfast-testbed holdfast-lab' ;;
    *) return 1 ;;
    esac
}

dependency_directions() {
    local manifest crate allowed uses used status=0
    for manifest in crates/*/Cargo.toml; do
        crate="$(sed -n 's/^name = "\(.*\)"$/\1/p' "$manifest" | head -n 1)"
        if ! allowed="$(allowed_for "$crate")"; then
            echo "$manifest: scripts/lint.sh knows no rule for the crate $crate" >&2
            status=1
            continue
        fi
        if ! uses="$(cargo tree --locked -e normal,build,dev --depth 1 --prefix none -p "$crate")"; then
            status=1
            continue
        fi
        for used in $(awk '$1 ~ /^holdfast/ { print $1 }' <<<"$uses" | sort -u); do
            case " $allowed $crate " in
            *" $used "*) ;;
            *)
                echo "$manifest: $crate may not depend on $used" >&2
                status=1
                ;;
            esac
        done
    done
    return $status
}

# docs/dependencies.md has a line for each crate that Cargo.toml names.
unexplained_dependencies() {
    local name
    for name in $(sed -n '/^\[workspace.dependencies\]/,/^\[workspace.lints/s/^\([a-z][a-z0-9_-]*\) = .*/\1/p' Cargo.toml |
        grep -v '^holdfast'); do
        grep -q "^| \`$name\` |" docs/dependencies.md || echo "docs/dependencies.md: no reason given for $name"
    done
}

unused_dependencies() {
    local name
    for name in $(sed -n '/^\[workspace.dependencies\]/,/^\[workspace.lints/s/^\([a-z][a-z0-9_-]*\) = .*/\1/p' Cargo.toml); do
        grep -q -E "^$name(\.workspace)? =" crates/*/Cargo.toml || echo "Cargo.toml: no crate uses $name"
    done
    local manifest crate
    for manifest in crates/*/Cargo.toml; do
        for name in $(sed -n '/dependencies\]/,/^\[[a-z]*\]$/s/^\([a-z][a-z0-9_-]*\)\.workspace = true$/\1/p' "$manifest"); do
            crate="${name//-/_}"
            grep -r -q -E "(^|[^[:alnum:]_])$crate(::|;| as |\{)" --include='*.rs' "$(dirname "$manifest")" ||
                echo "$manifest: nothing in this crate names $name"
        done
    done
}

# Paths to another module of the crate outside of imports: the search for circles does not see them.
inline_paths() {
    rust_files | grep -v -E '/tests?(/|\.rs$)' | xargs grep -n -E '(^|[^$[:alnum:]_])(crate|super)::[a-z_][a-z0-9_]*::' |
        grep -v -E '^[^:]*:[0-9]*: *(pub(\([a-z: ]+\))? )?use |^[^:]*:[0-9]*: *//|pub\(in crate|crate::counters!'
}

documentation() {
    RUSTDOCFLAGS='-D warnings' cargo doc --locked --quiet --workspace --no-deps --document-private-items
}

scripts/packages.sh lint
scripts/toolchain.sh rustfmt clippy cargo-modules

check 'licence lines' finds_nothing missing_licence
check 'module documentation' finds_nothing missing_module_doc
check "files below $lines_max lines" finds_nothing long_files
check 'nothing unfinished' finds_nothing unfinished
check 'unsafe in crates/net alone' finds_nothing unsafe_outside_net
check 'lints of the workspace' finds_nothing lints_of_workspace
check 'names of files and tests' finds_nothing empty_names
check 'names in the middle node' finds_nothing end_to_end_names
check 'no sleep without a system' finds_nothing sleeping_tests
check 'language of docs/words.md' scripts/words.pl
check 'a result for each figure' scripts/paper.py --check
check 'a reason for each dependency' finds_nothing unexplained_dependencies
check 'each dependency used' finds_nothing unused_dependencies
check 'directions of dependencies' dependency_directions
check 'modules by imports' finds_nothing inline_paths
check 'no circle of imports' scripts/imports.sh
check 'faults apply' scripts/faults.sh --check
check 'cargo fmt' cargo fmt --all --check
# Includes the tests that other machines run.
check 'clippy' cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
check 'purity' scripts/purity.sh
check 'documentation' documentation
check 'clang-format' clang-format --dry-run --Werror $(bpf_files)
check 'shellcheck' shellcheck -S warning $(scripts | grep -v -E '^Makefile$|\.(pl|c|py|js|jsx|html)$')
# rc.common reads the variables of an init script.
check 'shellcheck' shellcheck -S warning -s dash -e SC2034 $(foreign_scripts)
# Debian has no package of it, but releases are not built without it.
if command -v cargo-deny >/dev/null 2>&1; then
    check 'cargo deny' cargo deny --all-features check
else
    echo 'lint: not installed, left out: cargo-deny' >&2
fi

[ $failed -eq 0 ] && echo 'lint: clean' >&2
exit $failed
