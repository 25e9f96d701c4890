#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs tests on another kernel than this machine's: boots a kernel image of Debian in QEMU, with
# this machine's files below it, read only.
#
#     scripts/kernel_tests.sh [-k KERNEL] [SUITE [FILTER...]]
#     scripts/kernel_tests.sh [-k KERNEL] -c COMMAND
#
# KERNEL is a version of Linux (6.1, 6.12), or a package of Debian's (linux-image-amd64 unless given),
# which is downloaded and unpacked and not installed, or a folder with boot/ and lib/modules/. For a
# version all of Debian's suites are searched. What was unpacked is kept in target/kernels/.
#
# SUITE is one of these (each of them in turn, unless given); a FILTER names tests of it.
#
#     lccwe     the congestion control holdfast_lccwe
#     mobile    the mobile's data path
#     gateway   the gateway's data path; the broker process
#     keep      the data path of keep, and keep between hosts: its own tests, SCTP, WireGuard, ESP
#     wifi      nl80211, with radios of mac80211_hwsim; keep at such a link
#
# COMMAND is run there by a shell instead of tests.
#
# The last line is `N passed, N failed`. What the machine printed is in target/kernels/run.log.
#
# HOLDFAST_KERNEL_TESTS_LIMIT_S   the machine is ended after this time; 1200 unless set
# HOLDFAST_KERNEL_TESTS_ACCEL     QEMU's accelerators, in the order tried; kvm:tcg unless set

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/local/sbin:/usr/sbin:/sbin"

readonly limit_s="${HOLDFAST_KERNEL_TESTS_LIMIT_S:-1200}"
readonly accel="${HOLDFAST_KERNEL_TESTS_ACCEL:-kvm:tcg}"
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
readonly target kernels="$target/kernels"

usage() {
    sed -n 's/^# \{0,1\}//; 4,27p' "$0" >&2
    exit 2
}

kernel=linux-image-amd64
command=
while getopts k:c: option; do
    case "$option" in
    k) kernel="$OPTARG" ;;
    c) command="$OPTARG" ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
suite="${1-all}"
[ $# -eq 0 ] || shift
case "$suite" in
all | lccwe | mobile | gateway | keep | wifi) ;;
*) usage ;;
esac

scripts/packages.sh kernel
scripts/toolchain.sh
mkdir -p "$kernels"

exec 8>"$kernels/lock"
if ! flock -n 8; then
    echo "kernel_tests.sh: waiting for another run with $kernels" >&2
    flock 8
fi

# Runs Debian's tools with the lists of all suites, in a folder of their own: the machine's sources do not change.
all_suites() {
    local program=$1 archive
    shift
    archive="$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | awk 'NR == 1')"
    mkdir -p "$kernels/apt/lists/partial" "$kernels/apt/cache/archives/partial"
    printf "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive %s main\n" \
        bookworm trixie trixie-backports sid >"$kernels/apt/sources.list"
    "$program" -q -o "Dir::Etc::sourcelist=$kernels/apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o "Dir::State::lists=$kernels/apt/lists" -o "Dir::Cache=$kernels/apt/cache" \
        -o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}

# The package with the newest kernel of a version, such as 6.12.
package_of_version() {
    all_suites apt-get update >&2
    local package
    package="$(all_suites apt-cache search --names-only "^linux-image-${1//./\\.}\\..*-amd64\$" |
        awk '{ print $1 }' | grep -v -E 'cloud|-rt-|dbg|unsigned' | sort -V | tail -n 1)"
    [ -n "$package" ] || {
        echo "kernel_tests.sh: -k $1: none of Debian's suites has this kernel" >&2
        exit 1
    }
    echo "$package"
}

# The package that contains the image: a meta package depends on it.
image_package() {
    local depends
    depends="$(apt-cache depends "$1" | awk '/Depends: linux-image-[0-9]/ { print $2; exit }')"
    echo "${depends:-$1}"
}

# Unpacks a package, once.
unpacked() {
    local package folder
    package="$(image_package "$1")"
    folder="$kernels/$package"
    if [ ! -d "$folder" ]; then
        echo "kernel_tests.sh: downloading $package" >&2
        rm -rf "$folder.new"
        mkdir -p "$folder.new"
        (cd "$folder.new" && "${apt[@]}" download "$package" >&2)
        dpkg-deb -x "$folder.new/"*.deb "$folder.new"
        rm "$folder.new/"*.deb
        # Newer packages have their modules below usr/.
        [ ! -d "$folder.new/usr/lib/modules" ] || ln -s usr/lib "$folder.new/lib"
        mv "$folder.new" "$folder"
    fi
    echo "$folder"
}

apt=(apt-get -q)
if [[ "$kernel" =~ ^[0-9]+\.[0-9]+$ ]]; then
    kernel="$(package_of_version "$kernel")"
    apt=(all_suites apt-get)
fi
if [ -d "$kernel" ]; then
    root="$(realpath "$kernel")"
else
    root="$(unpacked "$kernel")"
fi
readonly root
images=("$root"/boot/vmlinuz-*)
readonly image="${images[0]}"
if [ ! -e "$image" ]; then
    echo "kernel_tests.sh: $root/boot has no vmlinuz-*; takes a package or its folder" >&2
    exit 1
fi
readonly version="${image##*/vmlinuz-}"
[ -e "$root/lib/modules/$version/modules.dep" ] || depmod -b "$root" "$version"

# The programs of a suite, one a line. They are built here: the other machine has no network.
programs() {
    cargo test --locked --no-run --message-format=json-render-diagnostics "$@" |
        sed -n 's/.*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*/\1/p'
}
# The same features for all suites: the program is built once.
readonly features=kernel-tests,wifi-tests
lccwe_programs() { programs -p holdfast-net --lib --test lccwe; }
mobile_programs() { programs -p holdfast-net --lib --test mobile_path --test next_hop; }
gateway_programs() { programs -p holdfast-net --test data_path; }
net_programs() { programs -p holdfast-net --lib; }
keep_programs() { programs -p holdfast --features "$features" --test namespaces --test keep_protocols; }
wifi_programs() { programs -p holdfast --features "$features" --test wifi; }

work="$(mktemp -d)"
qemu=
leave() {
    # Its guard ends the virtual machine.
    [ -z "$qemu" ] || kill -TERM "$qemu" 2>/dev/null || true
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Adds a program and its arguments to the list of what the virtual machine runs, one a line.
add() {
    local built
    built="$("$1_programs")"
    [ -n "$built" ] || {
        echo "kernel_tests.sh: nothing was built for $1" >&2
        exit 1
    }
    local program
    local -a filters
    while read -r program; do
        filters=("${@:3}")
        # Only a part of the tests of these programs belongs to the suite.
        if [ $# -eq 2 ] && [[ "$program" == */@(holdfast_net|namespaces)-* ]]; then
            filters=("$2")
        fi
        printf 'run'
        printf ' %q' "$program" "${filters[@]}"
        echo
    done <<<"$built"
}
if [ -n "$command" ]; then
    printf '(\n%s\n)\necho "kernel_tests: exit $?"\n' "$command"
else
    case "$suite" in all | lccwe) add lccwe lccwe:: "$@" ;; esac
    case "$suite" in all | mobile) add mobile mobile_path:: "$@" ;; esac
    case "$suite" in all | gateway)
        add gateway '' "$@"
        add net broker:: "$@"
        ;;
    esac
    case "$suite" in all | keep)
        add net keep_path:: "$@"
        # Tests that judge a time are left out: an emulated processor is too slow for them.
        add keep 'keep::a_gateway' "$@"
        [ $# -ne 0 ] || add keep 'running_kernel::bytes_arrive'
        ;;
    esac
    case "$suite" in all | wifi) add wifi '' "$@" ;; esac
fi >"$work/runs"

# The first file system: it loads the modules that are needed to see this machine's files.
initramfs="$work/initramfs"
mkdir -p "$initramfs"/{bin,mods,dev,proc,sys,base,over,new}
cp "$(command -v busybox)" "$initramfs/bin/busybox"
for module in virtio_pci 9pnet_virtio 9p overlay; do
    # In the order of their dependencies; built-in modules have no file.
    modprobe -d "$root" -S "$version" --show-depends "$module" 2>/dev/null |
        awk '$1 == "insmod" { print $2 }'
done | awk '!seen[$0]++' >"$work/modules"
while read -r module; do
    cp "$module" "$initramfs/mods/"
    basename "$module" >>"$initramfs/mods/order"
done <"$work/modules"
cat >"$initramfs/init" <<'INIT'
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
while read -r module; do
    insmod "/mods/$module" || echo "kernel_tests: $module is not loaded"
done </mods/order
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose,access=any base /base ||
    poweroff -f
mount -t tmpfs tmpfs /over
mkdir /over/up /over/work
mount -t overlay -o lowerdir=/base,upperdir=/over/up,workdir=/over/work overlay /new ||
    poweroff -f
umount /proc
mount --move /dev /new/dev
exec switch_root /new /bin/sh "$(cat /second)"
INIT
chmod 755 "$initramfs/init"
echo "$work/second" >"$initramfs/second"

cat >"$work/second" <<SECOND
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
export HOLDFAST_NO_SKIP=1 RUST_BACKTRACE=1 HOLDFAST_TEST_RUNNING_KERNEL=1 RUST_TEST_THREADS=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t bpf bpf /sys/fs/bpf
mount -t debugfs debugfs /sys/kernel/debug
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mkdir -p /dev/pts /dev/shm /dev/net
[ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mkdir -p /lib/modules
mount -t tmpfs tmpfs /lib/modules
ln -s '$root/lib/modules/$version' '/lib/modules/$version'
ip link set lo up
dmesg -n 1
echo "kernel_tests: \$(cat /proc/version)"
cd '$PWD'
run() {
    echo "kernel_tests: \$*"
    "\$@" --test-threads=1 --color=never --show-output </dev/null
    echo "kernel_tests: exit \$?"
}
. '$work/runs'
echo 'kernel_tests: over'
poweroff -f
SECOND
sed -i 's/poweroff -f$/busybox poweroff -f/' "$work/second"
(cd "$initramfs" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initramfs.gz"

echo "kernel_tests.sh: booting $version" >&2
log="$kernels/run.log"
: >"$log"
accels=()
IFS=: read -ra names <<<"$accel"
for name in "${names[@]}"; do
    case "$name" in
    # Without hardware support KVM may be present, but does not work.
    kvm) if ! grep -qwE 'vmx|svm' /proc/cpuinfo || [ ! -w /dev/kvm ]; then continue; fi ;;
    esac
    accels+=(-accel "$name")
done
# The limit applies also if this script is killed.
setpriv --pdeathsig TERM timeout --kill-after=5 "$limit_s" setpriv --pdeathsig KILL \
    qemu-system-x86_64 "${accels[@]}" -cpu max -smp 2 -m 3072 \
    -nodefaults -no-user-config -no-reboot -display none -serial "file:$log" \
    -kernel "$image" -initrd "$work/initramfs.gz" \
    -append 'console=ttyS0 quiet panic=-1 mitigations=off holdfast.kernel_tests' \
    -fsdev local,id=base,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=base,mount_tag=base 8>&- &
qemu=$!
ended=0
wait "$qemu" || ended=$?
qemu=
case "$ended" in 124 | 137) echo "kernel_tests.sh: ended after the limit of $limit_s s" >&2 ;; esac

if [ -n "$command" ]; then
    tr -d '\r' <"$log"
    exit "$(tr -d '\r' <"$log" | sed -n 's/^kernel_tests: exit \([0-9]*\)$/\1/p' | tail -n 1 | grep . || echo 1)"
fi
tr -d '\r' <"$log" | grep -E '^(test |kernel_tests: )|SKIPPED|LEFT OUT|panicked' || true
counts="$(awk '/^test result:/ { passed += $4; failed += $6 }
    END { print passed + 0, failed + 0 }' "$log")"
read -r passed failed <<<"$counts"
status=0
if ! grep -q '^kernel_tests: over' "$log"; then
    echo "kernel_tests.sh: it did not come to its end; see $log" >&2
    status=1
fi
if grep -E '^kernel_tests: exit ' "$log" | tr -d '\r' | grep -qv 'exit 0$' || [ "$passed" -eq 0 ]; then
    status=1
fi
echo "$passed passed, $failed failed"
exit "$status"
