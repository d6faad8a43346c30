#!/usr/bin/env bash
# Gathers what a real node needs besides a kubelet into one folder: bin/ (containerd, ctr, runc, the shim, busybox, and XFS's
# programs, because only XFS grows under a pod where root lacks CAP_SYS_RESOURCE) and cni/.
#
# usage: e2e/runtime/gather.sh FOLDER
# What the machine has is linked. The rest is downloaded from Debian's archive (a system with apt) and unpacked below
# FOLDER; nothing is installed, and apt's own lists are not touched.
# Ends with 3 and one line where a real node cannot run.
set -euo pipefail
folder=$(mkdir -p "${1:?usage: gather.sh FOLDER}" && cd "$1" && pwd)
cannot() { echo "real node: $*"; exit 3; }

[ "$(uname -s)" = Linux ] || cannot "needs Linux"
[ "$(id -u)" = 0 ] || cannot "needs root, for namespaces, mounts and containers"
unshare --pid --fork --mount --net --ipc --uts true 2>/dev/null || cannot "this machine allows no namespaces"
groups=/sys/fs/cgroup
[ -f "$groups/cgroup.controllers" ] || groups=$groups/memory
{ mkdir "$groups/csi-cluster-probe.$$" && rmdir "$groups/csi-cluster-probe.$$"; } 2>/dev/null || cannot "control groups cannot be made here"
for kind in overlay xfs; do
    grep -qw "$kind" /proc/filesystems || modprobe "$kind" 2>/dev/null || cannot "the kernel has no $kind"
done

programs=(bin/containerd bin/ctr bin/runc bin/containerd-shim-runc-v2 bin/busybox bin/mkfs.xfs bin/xfs_growfs
    cni/ptp cni/host-local cni/loopback)
missing() {
    local one
    for one in "${programs[@]}"; do [ -x "$folder/$one" ] || return 0; done
    return 1
}
missing || exit 0
mkdir -p "$folder/bin" "$folder/cni"

# have NAME PATH...: links the first that exists.
have() {
    local name=$1 path
    shift
    for path in "$@"; do
        [ -x "$path" ] && ln -sf "$path" "$folder/$name" && return 0
    done
    return 1
}
link() {
    local root=$1 one
    for one in containerd ctr runc containerd-shim-runc-v2 "${@:2}"; do
        have "bin/$one" "$root"/usr/{local/,}{bin,sbin}/"$one" || true
    done
    for one in ptp host-local loopback; do
        have "cni/$one" "$root"/{opt/cni/bin,usr/lib/cni,usr/libexec/cni}/"$one" || true
    done
}

link "" mkfs.xfs xfs_growfs
# Containers get it as their only program: a dynamically linked one would find no libraries there.
for busybox in /usr/bin/busybox /bin/busybox; do
    if [ -x "$busybox" ] && ! ldd "$busybox" >/dev/null 2>&1; then have bin/busybox "$busybox"; fi
done
missing || exit 0

command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
    cannot "containerd, runc, CNI plugins, a static busybox and xfsprogs are not all installed, and there is no apt to get them with"
apt=$folder/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/root"
options=(-q -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User=root" -o "Debug::NoLocking=true")
echo "real node: getting containerd, runc, CNI plugins, busybox and xfsprogs from the distribution (37 MB, once)"
{
    apt-get "${options[@]}" update &&
        cd "$apt" &&
        apt-get "${options[@]}" download containerd runc containernetworking-plugins busybox-static &&
        # With the libraries that it needs and the machine lacks.
        apt-get "${options[@]}" install --download-only --yes --no-install-recommends xfsprogs
} >"$apt/log" 2>&1 || { tail -5 "$apt/log"; cannot "the download failed"; }
for package in "$apt"/*.deb "$apt"/cache/archives/*.deb; do
    [ -e "$package" ] || continue
    dpkg -x "$package" "$apt/root"
    rm "$package"
done
rm -rf "$apt/lists" "$apt/cache"
link "$apt/root"
libraries=$(printf '%s:' "$apt"/root/{usr/,}lib/*-linux-gnu*)
for one in mkfs.xfs xfs_growfs; do
    [ ! -x "$folder/bin/$one" ] || continue
    for path in "$apt"/root/{usr/,}sbin/"$one"; do
        [ -x "$path" ] || continue
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "${libraries%:}" "$path" >"$folder/bin/$one"
        chmod +x "$folder/bin/$one"
    done
done
have bin/busybox "$apt/root/bin/busybox" "$apt/root/usr/bin/busybox" || true
! missing || cannot "the distribution's packages lack some of: ${programs[*]}"
