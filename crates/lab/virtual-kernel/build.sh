#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the virtual kernel in the current folder, which has `config` and the patches.
#
#     build.sh JOBS [TARBALL]         without a tarball: Debian's sources, by apt
#
# Each step leaves its result under its name only when it is whole, so an interrupted build goes on
# where it was. A line that begins with "== " names a step. The result is tree/linux.

set -euo pipefail
export LC_ALL=C
jobs=$1
tarball=${2:-}

# System calls without ptrace came to User Mode Linux with 6.16 (seccomp=on), programs at
# interfaces that detach with their owner (TCX) with 6.6.
readonly oldest=6.16
# The kernel with which everything was tried: taken if Debian has it.
readonly tried=7.2
# The suites that have kernels newer than the stable one.
readonly suites=(sid trixie-backports)
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() {
    echo "$*" >&2
    exit 1
}

is_new_enough() {
    [ "$(printf '%s\n' "$oldest" "$1" | sort -V | head -n 1)" = "$oldest" ]
}

# Debian's tools with lists and cache in this folder: no root, and the machine's sources stay.
apt() {
    local program=$1
    shift
    "$program" -q -o "Dir::Etc::sourcelist=$PWD/apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o "Dir::State::lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt/cache" \
        -o APT::Sandbox::User= -o Acquire::Languages=none \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false "$@"
}

# The tried version of those on the standard input, or else the newest one that will do.
choose() {
    local version chosen=
    while read -r version; do
        is_new_enough "$version" || continue
        chosen=$version
        [ "$version" != "$tried" ] || break
    done < <(sort -V)
    echo "$chosen"
}

download() {
    mkdir -p apt/lists/partial apt/cache/archives/partial
    # The one that this machine uses, if it is Debian.
    local archive
    archive=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | awk 'NR == 1')
    [ -n "$archive" ] ||
        fail "apt has no lists; run: apt-get update; or give a kernel.org tarball with --source"
    printf "deb [signed-by=$keyring] $archive %s main\n" "${suites[@]}" >apt/sources.list
    apt apt-get update
    local version
    version=$(apt apt-cache search --names-only '^linux-source-[0-9.]+$' |
        sed -n 's/^linux-source-\([0-9]*\.[0-9]*\) .*/\1/p' | choose)
    [ -n "$version" ] ||
        fail "Debian's ${suites[*]} have no linux-source-$oldest or newer; give a kernel.org tarball with --source"
    rm -rf -- *.deb package.partial
    apt apt-get download "linux-source-$version"
    dpkg-deb -x -- *.deb package.partial
    mv package.partial package
    rm -- *.deb
}

# The number that the sources' Makefile gives a name.
number() {
    sed -n "s/^$1 *= *\([0-9]*\).*/\1/p" tree.partial/Makefile | head -n 1
}

unpack() {
    rm -rf tree.partial
    mkdir tree.partial
    tar --extract --strip-components=1 --file "$tarball" --directory tree.partial
    local version
    version=$(number VERSION).$(number PATCHLEVEL)
    [[ "$version" =~ ^[0-9]+\.[0-9]+$ ]] || fail "$tarball: not the sources of Linux"
    is_new_enough "$version" || fail "$tarball: Linux $version; takes $oldest or newer"
    local file
    for file in *.patch; do
        patch --strip=1 --forward --directory=tree.partial --input="$PWD/$file" ||
            fail "$file: does not fit these sources"
    done
    mv tree.partial tree
}

# Options of `config` that the made configuration lacks: the kernel's tools drop without a message
# what another option forbids.
dropped() {
    grep '^CONFIG_' config | grep -vxF -f tree/.config || true
}

if [ ! -d tree ]; then
    if [ -z "$tarball" ]; then
        echo "== getting the kernel's sources from Debian (160 MB)"
        [ -d package ] || download
        tarball=$(find package/usr/src -name '*.tar.xz' | head -n 1)
        [ -n "$tarball" ] || fail "linux-source: has no sources in it"
    fi
    echo "== unpacking them"
    unpack
fi
# Not of a make that runs this script.
unset MAKEFLAGS MFLAGS
# Only if another was made: its time decides what has to be compiled again.
if [ ! -e tree/.config ] || [ -n "$(dropped)" ]; then
    make -C tree ARCH=um KCONFIG_ALLCONFIG="$PWD/config" allnoconfig
    [ -z "$(dropped)" ] || fail "this kernel does not take $(dropped | paste -sd ,); try another one"
fi
echo "== building the kernel"
# The kernel seeds its randomness with its own version text too, so all builds have the same one.
export KBUILD_BUILD_TIMESTAMP='2025-01-01' KBUILD_BUILD_USER=holdfast KBUILD_BUILD_HOST=virtual
export KBUILD_BUILD_VERSION=1
make -C tree ARCH=um -j"$jobs" linux
