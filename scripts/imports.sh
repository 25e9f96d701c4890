#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Looks for circles of imports between the modules of each crate.
#
#     scripts/imports.sh [CRATE...]      such as: holdfast-core
#
# Modules with the same parent are compared, each with all modules below it. If one uses another, that one may not use
# the first, not even through further modules. A module may use its parent's items and its own children.
#
# Each module on a circle is a line; the status is 1 if there is one.

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

crates=("$@")
[ ${#crates[@]} -gt 0 ] || mapfile -t crates < <(sed -n 's/^name = "\(holdfast.*\)"$/\1/p' crates/*/Cargo.toml | sort -u)

# Each line has a module, and another module of the same parent that it uses.
siblings() {
    sed -n 's/^ *"\([a-z0-9_:]*\)" -> "\([a-z0-9_:]*\)" .*"uses".*/\1 \2/p' | awk '{
        from_len = split($1, from, "::")
        to_len = split($2, to, "::")
        path = ""
        for (level = 1; level <= from_len && level <= to_len; level++) {
            if (from[level] != to[level]) {
                print path from[level], path to[level]
                break
            }
            path = path from[level] "::"
        }
    }' | sort -u
}

circles=
for crate in "${crates[@]}"; do
    part=--lib
    [ -e "crates/${crate#holdfast-}/src/lib.rs" ] || part="--bin=holdfast"
    graph="$(cargo modules dependencies --package "$crate" "$part" --no-owns --no-externs --no-sysroot \
        --no-types --no-traits --no-fns)"
    if ! grep -q '^digraph' <<<"$graph"; then
        echo "imports.sh: cargo modules printed no graph of $crate" >&2
        exit 2
    fi
    # tsort names the modules of a circle on its standard error.
    circles+="$({ siblings <<<"$graph" | tsort 2>&1 >/dev/null || true; } |
        sed -n 's/^tsort: \([a-z0-9_]*::.*\)$/\1/p')"$'\n'
done
circles="$(sort -u <<<"$circles" | sed '/^$/d')"
[ -z "$circles" ] && exit 0
sed 's/$/: is on a circle of imports/' <<<"$circles" >&2
exit 1
