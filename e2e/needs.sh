#!/usr/bin/env bash
# Says what a machine lacks for `make demo`, and where to get it.
#
# usage: e2e/needs.sh whole|guest
# whole: a cluster of its own; guest: registration with a cluster that exists, which mounts nothing.
set -euo pipefail

declare -a lacks=()

tool() { # NAME WHERE-FROM
    command -v "$1" >/dev/null || lacks+=("$1 is missing: $2")
}

mounts() {
    if [ "$(id -u)" != 0 ]; then
        lacks+=("kubelets and drivers mount, which takes root: sudo env \"PATH=\$PATH\" make demo
    (without root: make demo KUBECONFIG=FILE registers a driver with your cluster and mounts nothing)")
    elif command -v unshare >/dev/null && ! unshare --mount mount -t tmpfs none /tmp 2>/dev/null; then
        lacks+=("root may not mount here: in a container, start it with --privileged")
    elif ! { [ -e /dev/loop-control ] && losetup --find; } >/dev/null 2>&1; then
        lacks+=("there is no free loop device: modprobe loop; in a container, start it with --privileged")
    fi
}

case ${1:-} in
    whole)
        for name in unshare mount umount losetup; do tool "$name" "apt-get install mount util-linux"; done
        for name in mkfs.ext4 e2fsck resize2fs; do tool "$name" "apt-get install e2fsprogs"; done
        tool go "Go 1.26 or newer, https://go.dev/dl"
        mounts
        ;;
    guest) ;;
    *)
        echo "usage: e2e/needs.sh whole|guest" >&2
        exit 2
        ;;
esac
tool cargo "Rust, https://rustup.rs"
tool cc "apt-get install gcc, which Rust links with"

[ ${#lacks[@]} -gt 0 ] || exit 0
echo "make demo cannot run here:" >&2
printf '  - %s\n' "${lacks[@]}" >&2
exit 1
