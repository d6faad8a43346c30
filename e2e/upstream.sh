#!/usr/bin/env bash
# upstream.sh OLD NEW [NAME]: what differs from outside between the programs in two folders, which is how a new release of
# upstream is read. Help texts, metrics, and of each scenario (of those with NAME in their name)
# requests, calls of the driver and events. What was seen stays in build/upstream-seen; `make upstream` builds what this needs.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -ge 2 ] || { echo 'usage: make upstream OLD=FOLDER NEW=FOLDER [ONLY=NAME]' >&2; exit 2; }
seen=build/upstream-seen
compiled=${CARGO_TARGET_DIR:-target}/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}debug
all=(--locked --workspace --all-features)

# Program, its variable, and what names of its scenarios begin with.
controllers='
csi-attacher ATTACHER attacher_
csi-provisioner PROVISIONER provisioner_
csi-resizer RESIZER resizer_
csi-snapshotter SNAPSHOTTER snapshots_
snapshot-controller SNAPSHOT_CONTROLLER snapshots_'

# Looks at the programs in folder $1, and writes what it sees to $2.
look() {
    local folder=$1 out=$2 only=$3 program variable prefix
    local -a settings=() prefixes=()
    mkdir -p "$out/says" "$out/scenarios"
    while read -r program variable prefix; do
        [ -x "$folder/$program" ] || continue
        settings+=("$variable=$folder/$program")
        [[ " ${prefixes[*]} " == *" $prefix "* ]] || prefixes+=("$prefix")
    done < <(sed 1d <<<"$controllers")
    [ ${#settings[@]} -gt 0 ] || { echo "$folder has none of upstream's controllers" >&2; exit 1; }
    printf '==> %s\n' "upstream: ${settings[*]}"
    env "${settings[@]}" "$compiled/upstream" "$out/says"
    [ -z "$only" ] || prefixes=("$only")
    for prefix in "${prefixes[@]}"; do
        # One that fails is a difference, too, unless it does with both.
        env "${settings[@]}" RECORD="$PWD/$out/scenarios" cargo test "${all[@]}" --test scenarios -- "$prefix" || true
    done
}

old=$(realpath "$1") new=$(realpath "$2")
rm -rf "$seen"
look "$old" "$seen/old" "${3-}"
look "$new" "$seen/new" "${3-}"

printf '\n==> %s\n' "upstream: what differs from outside between $old and $new"
if diff -ruN "$seen/old" "$seen/new"; then
    echo 'nothing'
fi
