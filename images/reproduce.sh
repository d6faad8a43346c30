#!/usr/bin/env bash
# Builds programs and images again and compares: from a clone at another path, compiled into another folder, from crates
# unpacked into another home of cargo. What a registry once gave is not downloaded again.
#
# usage: images/reproduce.sh IMAGE...   by `make reproduce`, which has built them here
set -euo pipefail
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain --untracked-files=no)" ] || {
    echo "reproduce: there are changes that no commit has, and a clone would be other source"
    exit 1
}
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
echo "==> reproduce: the same again, in $there"
git clone -q . "$there/source"
git -C "$there/source" checkout -q --detach "$(git rev-parse HEAD)"
mkdir -p "$there/cargo/registry"
for part in registry/cache registry/index config.toml; do
    from=${CARGO_HOME:-$HOME/.cargo}/$part
    [ ! -e "$from" ] || cp -r "$from" "$there/cargo/$part"
done
export CARGO_HOME=$there/cargo CARGO_NET_OFFLINE=true
make -C "$there/source" images CARGO_TARGET_DIR="$there/target" CARGO_HOME="$CARGO_HOME"

failed=0
compare() {
    if ! cmp "$1" "$there/source/$1"; then failed=1; fi
}
for image in "$@"; do
    compare "bin/$image"
    for file in build/images/"$image"-*; do compare "$file"; done
done
[ "$failed" = 0 ] || { echo "reproduce: not the same"; exit 1; }
echo "==> reproduce: every byte of $# programs, archives and SBOMs is the same"
