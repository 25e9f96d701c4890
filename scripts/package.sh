#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the packages of a release into target/package/: .deb, .rpm and a tarball for each
# processor, the list of what is in the program (SBOM), and SHA256SUMS.
#
#     scripts/package.sh [--tools] [PROCESSOR...]     x86_64 and aarch64 unless given
#
# With --tools it only installs what is needed to build.
#
# The programs are static (musl): one for all distributions. A commit with a tag vX.Y.Z gives the
# version X.Y.Z; any other commit a version before that of Cargo.toml. A tag that does not agree with
# Cargo.toml, CHANGELOG.md or the OpenWrt recipe is an error. So is a library that deny.toml refuses.
#
# HOLDFAST_PACKAGE_QUICK=1   the programs are compiled fast and run slowly (packaging/quick.toml): for tests of the
#                            packages. Ignored for a tag.

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

tools_only=
[ "${1-}" != --tools ] || {
    tools_only=1
    shift
}
version="$(sed -n '/^\[workspace.package\]/,/^\[workspace.dep/s/^version = "\(.*\)"$/\1/p' Cargo.toml)"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
tag="$(git describe --tags --exact-match --match 'v*' 2>/dev/null || true)"
wrong_tag() {
    echo "package.sh: the tag $tag: $1; see docs/releasing.md" >&2
    exit 1
}
if [ -n "$tag" ]; then
    [ "$tag" = "v$version" ] || wrong_tag "Cargo.toml has version $version"
    grep -q -F "## [$version] - " CHANGELOG.md || wrong_tag "CHANGELOG.md has no section [$version] with a date"
    grep -q -x "PKG_VERSION:=$version" packaging/openwrt/Makefile ||
        wrong_tag "packaging/openwrt/Makefile has another PKG_VERSION"
    git diff --quiet HEAD || wrong_tag 'the work tree has changes that are not committed'
else
    # `~` sorts before the version itself.
    version+="~$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=8 HEAD)"
fi

processors=("$@")
[ $# -gt 0 ] || processors=(x86_64 aarch64)
scripts/packages.sh package
targets=("${processors[@]/%/-unknown-linux-musl}")
scripts/toolchain.sh cargo-cyclonedx "${targets[@]}"

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
readonly target tools="$target/packaging-tools" packages="$target/package"
if ! cmp -s packaging/requirements.txt "$tools/requirements.txt"; then
    rm -rf "$tools"
    pip3 install --quiet --require-hashes --only-binary :all: --target "$tools" -r packaging/requirements.txt
    cp packaging/requirements.txt "$tools"
fi
[ -z "$tag" ] || scripts/toolchain.sh cargo-deny
[ -z "$tools_only" ] || exit 0
[ -z "$tag" ] || cargo deny --locked --all-features check
export PATH="$tools/bin:$PATH" PYTHONPATH="$tools"

export VERSION="$version" SOURCE_DATE_EPOCH
build=(cargo zigbuild --locked --profile dist)
[ -n "$tag" ] || [ "${HOLDFAST_PACKAGE_QUICK:-0}" != 1 ] || build+=(--config packaging/quick.toml)

# libelf's build looks for three libraries that musl lacks; only elfutils' programs use them.
export ac_cv_search_argp_parse='none required' ac_cv_search_fts_close='none required' \
    ac_cv_search__obstack_free='none required'
export CFLAGS_x86_64_unknown_linux_musl="-I$PWD/packaging/musl"
export CFLAGS_aarch64_unknown_linux_musl="-I$PWD/packaging/musl"
program() { echo "$target/$1-unknown-linux-musl/dist/holdfast"; }
# libelf is built in one folder, for one processor at a time. For the last processor it is built with the programs, most
# of whose build uses one thread each.
for one in "${targets[@]:0:${#targets[@]}-1}"; do
    "${build[@]}" --package libbpf-sys --target "$one"
done
"${build[@]}" --package holdfast "${targets[@]/#/--target=}"
generator="$(program "$(uname -m)")"
[ -e "$generator" ] || generator="$(program "${processors[0]}")"

rm -rf "$packages"
mkdir -p "$packages"
staging="$(mktemp -d)"
trap 'rm -rf "$staging"' EXIT
for processor in "${processors[@]}"; do
    root="$staging/holdfast-$version-$processor"
    scripts/install.sh "$root" "$(program "$processor")" "$generator"
    tar -C "$staging" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        -cJf "$packages/$(basename "$root").tar.xz" "$(basename "$root")"

    cp -r packaging "$root/"
    printf 'holdfast (%s-1) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' "$version" \
        'The changes are in CHANGELOG.md beside this file.' \
        "$(sed -n 's/^maintainer: //p' packaging/nfpm.yaml)" "$(date --utc -R --date="@$SOURCE_DATE_EPOCH")" |
        gzip -n -9 >"$root/packaging/changelog.Debian.gz"
    case "$processor" in
    x86_64) architecture=amd64 ;;
    aarch64) architecture=arm64 ;;
    esac
    for kind in deb rpm; do
        (cd "$root" && ARCH=$architecture nfpm package -f packaging/nfpm.yaml -p $kind -t "$packages/")
    done
done

cargo cyclonedx --quiet --manifest-path crates/holdfast/Cargo.toml --format json \
    --target "${processors[0]}-unknown-linux-musl"
mv crates/holdfast/holdfast.cdx.json "$packages/holdfast-$version.cdx.json"
rm -f crates/*/*.cdx.json

(cd "$packages" && sha256sum -- * >SHA256SUMS && ls -l)
