#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the program and all that goes with it: units, manual pages, completions, scenarios, pages.
#
#     scripts/install.sh ROOT PROGRAM [GENERATOR]
#
# ROOT is / or the folder of a package. PROGRAM may be of another processor; GENERATOR is then the same
# program for this one. Settings that are there stay as they are. Nothing is started.

set -euo pipefail
[ $# -ge 2 ] || {
    sed -n 's/^# \{0,1\}//; 4,9p' "$0" >&2
    exit 2
}
root="$(realpath -m "$1")"
program="$(realpath "$2")"
generator="$(realpath "${3-$2}")"
[ "$root" != / ] || root=
cd "$(dirname "$0")/.."

# put MODE FOLDER FILE...
put() {
    install -d "$root$2"
    install -m "$1" -t "$root$2" "${@:3}"
}

readonly share=/usr/share/holdfast
install -D -m 755 "$program" "$root/usr/bin/holdfast"
put 644 /usr/lib/systemd/system dist/*.service
put 755 /usr/lib/NetworkManager/dispatcher.d dist/networkmanager/90-holdfast
install -d "$root/usr/lib/NetworkManager/dispatcher.d/pre-down.d"
ln -sf ../90-holdfast "$root/usr/lib/NetworkManager/dispatcher.d/pre-down.d/"
put 644 $share/scenarios docs/scenarios/*.toml
for paper in papers/*/; do
    put 644 "$share/$paper" "$paper"*
done
for kind in sysusers tmpfiles; do
    [ ! -d "dist/$kind.d" ] || put 644 "/usr/lib/$kind.d" "dist/$kind.d"/*
done
for kind in grafana prometheus; do
    [ ! -d "dist/$kind" ] || put 644 "$share/$kind" "dist/$kind"/*
done
put 644 /usr/share/doc/holdfast README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md SECURITY.md LICENSE
put 644 /usr/share/doc/holdfast/docs docs/*.md
put 644 /usr/share/doc/holdfast/docs/notes docs/notes/*
put 644 /usr/share/doc/holdfast/docs/schemes docs/schemes/*

made="$(mktemp -d)"
trap 'rm -rf "$made"' EXIT
"$generator" generate man "$made"
"$generator" generate completions "$made"
for section in 1 5 8; do
    gzip -n -9 "$made"/*.$section
    put 644 /usr/share/man/man$section "$made"/*.$section.gz
done
mv "$made/holdfast.bash" "$made/holdfast"
put 644 /usr/share/bash-completion/completions "$made/holdfast"
put 644 /usr/share/fish/vendor_completions.d "$made/holdfast.fish"
put 644 /usr/share/zsh/site-functions "$made/_holdfast"

# Settings may contain keys: root can read them, and the user of dist/tmpfiles.d if it exists.
install -d "$root/etc/holdfast"
for settings in holdfast.toml mobile.toml; do
    [ -e "$root/etc/holdfast/$settings" ] || put 600 /etc/holdfast "etc/$settings"
done
