#!/usr/bin/env bash
# Runs csi-sanity against a driver, once with file system and once with block volumes.
#
# usage: e2e/sanity/run.sh DRIVER        (DRIVER: bin/csi-test-driver, or a hostpathplugin)
# CSI_SANITY names another csi-sanity; FLAGS adds flags for the driver.
# Needs root for real mounts. Leaves nothing behind, whatever happens.
set -uo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
driver=${1:?usage: run.sh DRIVER}
driver=$(realpath "$driver") || exit 1
tool=${CSI_SANITY:-$root/build/csi-sanity}

if [ "$(id -u)" != 0 ]; then
    echo "sanity: skipped, mounts need root"
    exit 0
fi
if [ ! -x "$tool" ] || { [ -z "${CSI_SANITY:-}" ] && [ "$root/e2e/sanity/go.sum" -nt "$tool" ]; }; then
    echo "sanity: building csi-sanity (half a minute of work, once)"
    mkdir -p "$(dirname "$tool")"
    (cd "$root/e2e/sanity" &&
        go build -mod=readonly -trimpath -o "$tool" github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity) || exit 1
    touch "$tool"
fi

work=$(mktemp -d)
pid=
stop() {
    if [ -n "$pid" ]; then
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        pid=
    fi
}
finish() {
    code=$?
    trap - EXIT
    stop
    for state in "$work"/*/state; do
        [ -d "$state" ] && "$root/bin/csi-test-driver" cleanup --statedir "$state" >/dev/null 2>&1
    done
    # Never across a mount that could not be undone.
    rm -rf --one-file-system "$work"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# run KIND CSI-SANITY-FLAGS...
run() {
    local kind=$1 dir=$work/$1
    shift
    mkdir -p "$dir"
    # shellcheck disable=SC2086
    "$driver" --drivername=sanity.csi.example.com --nodeid=sanity-node \
        --endpoint="unix://$dir/csi.sock" --statedir="$dir/state" --enable-attach \
        --attach-limit=10 --enable-controller-modify-volume --enable-snapshot-metadata \
        --accepted-mutable-parameter-names=color ${FLAGS:-} >"$dir/driver.log" 2>&1 &
    pid=$!
    for _ in $(seq 100); do
        [ -S "$dir/csi.sock" ] && break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    "$tool" --csi.endpoint="unix://$dir/csi.sock" --csi.mountdir="$dir/mount" \
        --csi.stagingdir="$dir/staging" --csi.testvolumesize=1048576 \
        --csi.testvolumeexpandsize=2097152 --csi.testnodevolumeattachlimit \
        --csi.testvolumemutableparameters="$work/mutable.yaml" \
        --ginkgo.no-color "$@" >"$dir/sanity.log" 2>&1
    local code=$?
    stop
    if [ "$code" != 0 ]; then
        cat "$dir/sanity.log"
        echo "--- the driver's last lines"
        tail -20 "$dir/driver.log"
    fi
    grep -E '^(Ran [0-9]|SUCCESS|FAIL!)' "$dir/sanity.log" | sed "s/^/sanity $kind: /"
    return "$code"
}

echo 'color: blue' >"$work/mutable.yaml"
failed=0
run mount || failed=1
run block --csi.testvolumeaccesstype=block || failed=1
if [ "$(basename "$driver")" = csi-test-driver ]; then
    # File system volumes once more, each with a file system of its own.
    FLAGS="${FLAGS:-} --fs-images" run images || failed=1
fi

left=$(grep -c "$work" /proc/self/mountinfo)
loops=$(cat /sys/block/loop*/loop/backing_file 2>/dev/null | grep -c "$work")
if [ "$left" != 0 ] || [ "$loops" != 0 ]; then
    echo "sanity: $left mounts and $loops loop devices were left behind"
    failed=1
fi
exit "$failed"
