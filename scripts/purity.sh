#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows that settings, wire, core, link and sim use no clock, no socket, no file and no randomness of the
# operating system, so that the same input gives the same output on every machine:
#
#   1. none of the crates that they are built from is one that talks to the system;
#   2. their compiled code references nothing of `std` and no C function
#      other than memory moves and exact roundings;
#   3. they build for wasm32-unknown-unknown, a target without a system (only where the toolchain
#      has that target: `rustup target add wasm32-unknown-unknown`).
#
# Each crate's clippy.toml forbids the same by name, and points at the line; see scripts/lint.sh.

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

readonly crates=(holdfast-settings holdfast-wire holdfast-core holdfast-link holdfast-sim)
selected=()
for crate in "${crates[@]}"; do selected+=(-p "$crate"); done
failed=0

fail() {
    echo "purity: $1" >&2
    failed=1
}

# 1. Dependencies. libc is allowed only where it reads processor features (by cpufeatures, on Arm alone).
readonly system_crates='getrandom|rustix|nix|mio|socket2|tokio|async-std|rand|chrono|time|errno|rtnetlink|netlink-sys'
for crate in "${crates[@]}"; do
    tree="$(cargo tree --locked -e normal --prefix none -p "$crate" | awk '{ print $1 }' | sort -u)"
    found="$(grep -E -x "$system_crates" <<<"$tree" || true)"
    [ -z "$found" ] || fail "$crate is built from a crate that uses the system: ${found//$'\n'/ }"
done

# 2. What the compiled code asks for: what each object file leaves to the linker, less what
#    another object file of the same library has. `link-dead-code` makes the compiler emit every
#    function, also those it would only inline elsewhere.
# zstd is C code that only computes. Allowed are its functions that compress and decompress one buffer, and those that
# make and free their contexts. They allocate, and read no clock, file or socket.
readonly c_functions='ZSTD_(create|free)[CD]Ctx|ZSTD_(de)?compress_usingDict|ZSTD_isError|mem(cpy|move|set|cmp)|bcmp|rust_eh_personality|_Unwind_Resume|_GLOBAL_OFFSET_TABLE_|__rust_.*|__[a-z]+[dstf]i[0-9]|f?(round|floor|ceil|trunc|rint)(even)?f?'
libraries="$(RUSTFLAGS='-C link-dead-code' CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 \
    cargo build --locked --target-dir "${CARGO_TARGET_DIR:-target}/purity" "${selected[@]}" \
    --message-format json-render-diagnostics |
    grep -o '"[^"]*/libholdfast_[a-z]*\.rlib"' | tr -d '"' | sort -u)"
[ "$(grep -c . <<<"$libraries")" -eq ${#crates[@]} ] || fail "expected ${#crates[@]} libraries, got: $libraries"
for library in $libraries; do
    needed="$(comm -23 \
        <(nm -C --undefined-only "$library" 2>/dev/null | sed -n 's/^ *[Uw] //p' | sort -u) \
        <(nm -C --defined-only "$library" 2>/dev/null | sed -n 's/^[0-9a-f]* [A-Za-z] //p' | sort -u))"
    while read -r symbol; do
        case "$symbol" in
        '') continue ;;
        # A value that is made once, while other threads wait. It reads nothing.
        *std::sys::sync::once::*) continue ;;
        *std::*) fail "$(basename "$library" .rlib) uses $symbol" ;;
        *::*) continue ;; # of core, alloc or a crate that step 1 has let through
        *) grep -E -q -x "$c_functions" <<<"$symbol" ||
            fail "$(basename "$library" .rlib) uses the C function $symbol" ;;
        esac
    done <<<"$needed"
done

# 3. A target without a system.
readonly bare=wasm32-unknown-unknown
if [ -d "$(rustc --print sysroot)/lib/rustlib/$bare" ]; then
    cargo check --locked --quiet --target "$bare" "${selected[@]}" ||
        fail "the build for $bare failed"
else
    echo "purity: no $bare in this toolchain: steps 1 and 2 alone" >&2
fi

exit $failed
