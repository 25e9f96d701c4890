#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that a Rust toolchain new enough for this workspace can be found.
#
#     scripts/toolchain.sh [component...]     such as: rustfmt clippy cargo-modules x86_64-unknown-linux-musl
#
# A missing component or target is added where rustup manages the toolchain; cargo-modules, cargo-mutants,
# cargo-cyclonedx and cargo-deny are built, which takes some minutes, once.

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

needed="$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)"
if ! command -v cargo >/dev/null 2>&1; then
    echo "toolchain.sh: no cargo found: Rust $needed or newer is needed, see https://rustup.rs" >&2
    exit 1
fi
found="$(rustc --version | awk '{ print $2 }')"
if [ "$(printf '%s\n%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
    echo "toolchain.sh: found Rust $found; $needed or newer is needed, see https://rustup.rs" >&2
    exit 1
fi

# Installs a program of crates.io, in this version and with this level of optimisation. Building it takes longer than
# its work here.
installed() {
    "$1" --version >/dev/null 2>&1 || "$1" "${1#cargo-}" --version >/dev/null 2>&1 ||
        CARGO_PROFILE_RELEASE_OPT_LEVEL="$3" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
            cargo install --locked --quiet "$1@$2" >&2
}

for component in "$@"; do
    case "$component" in
    cargo-modules)
        installed cargo-modules 0.27.0 1
        continue
        ;;
    cargo-mutants)
        installed cargo-mutants 27.1.0 1
        continue
        ;;
    cargo-cyclonedx)
        installed cargo-cyclonedx 0.5.9 0
        continue
        ;;
    cargo-deny)
        installed cargo-deny 0.20.2 0
        continue
        ;;
    *-linux-musl)
        [ -d "$(rustc --print sysroot)/lib/rustlib/$component" ] || rustup target add "$component" >&2
        continue
        ;;
    rustfmt) probe=cargo-fmt ;;
    clippy) probe=cargo-clippy ;;
    *)
        echo "toolchain.sh: unknown component $component" >&2
        exit 2
        ;;
    esac
    "$probe" --version >/dev/null 2>&1 && continue
    if ! command -v rustup >/dev/null 2>&1 || ! rustup component add "$component" >&2; then
        echo "toolchain.sh: the toolchain has no $component: add it and run again" >&2
        exit 1
    fi
done
