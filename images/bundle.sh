#!/usr/bin/env bash
# What an installation without the internet needs, in one file: archives of the images with their SBOMs, the charts, a list
# of the images by digest, values that hold the charts to these digests, and checksums.
#
# usage: images/bundle.sh HELM IMAGES CHART PROCESSOR FOLDER   by `make bundle`
#
# The chart of the cluster's snapshot-controller goes along if it lies beside CHART.
#
# The names of images are those that the archives say. The charts are rendered with the values, and must name nothing that is not in the list.
set -euo pipefail
helm=$1 images=$2 chart=$3 processor=$4 folder=$5
complain() { printf 'bundle: %s\n' "$*" >&2; exit 1; }
[ -f "$chart" ] || complain "there is no chart $chart: make chart-package writes it"
shopt -s nullglob
archives=("$images"/*-"$processor".oci.tar)
[ ${#archives[@]} -gt 0 ] || complain "there are no archives for $processor in $images: make images writes them"

# What an archive holds is what its names say: `load ARCHIVE FOLDER` unpacks it there.
load() {
    local blob digest
    mkdir "$2"
    tar -xf "$1" -C "$2" 2>/dev/null || complain "$1 is damaged: it cannot be unpacked"
    [ -f "$2/index.json" ] || complain "$1 is no archive of make images"
    for blob in "$2"/blobs/sha256/*; do
        digest=$(sha256sum "$blob" | cut -d' ' -f1)
        [ "$digest" = "$(basename "$blob")" ] || complain "$1 is damaged: blobs/sha256/$(basename "$blob") is $digest"
        # Manifests say which other blobs there must be; layers are no text.
        [ "$(head -c 1 "$blob")" = '{' ] || continue
        blobs_of "$1" "$2" "$blob"
    done
    blobs_of "$1" "$2" "$2/index.json"
}

blobs_of() {
    local digest
    while read -r digest; do
        [ -f "$2/blobs/sha256/$digest" ] || complain "$1 is damaged: it has no blobs/sha256/$digest"
    done < <({ grep -oE '"digest":"sha256:[0-9a-f]{64}"' "$3" || true; } | grep -oE '[0-9a-f]{64}')
}

tags=""
name=$(basename "$chart" .tgz)-$processor
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$name/images" "$folder"
cp "$chart" "$work/$name/"
cluster=$(dirname "$chart")/$(basename "$chart" | sed 's/^csi-sidecars/snapshot-controller/')
[ "$(basename "$cluster")" != "$(basename "$chart")" ] && [ -f "$cluster" ] || cluster=""
[ -z "$cluster" ] || cp "$cluster" "$work/$name/"
printf 'image:\n  digests:\n' >"$work/$name/digests.yaml"
for archive in "${archives[@]}"; do
    rm -rf "$work/loaded"
    load "$archive" "$work/loaded"
    index=$(<"$work/loaded/index.json")
    image=$(sed -n 's/.*"io\.containerd\.image\.name":"\([^"]*\)".*/\1/p' <<<"$index")
    digest=$(sed -n 's/.*"digest":"\(sha256:[0-9a-f]\{64\}\)".*/\1/p' <<<"$index")
    [ -n "$image" ] && [ -n "$digest" ] || complain "$archive is no archive of make images"
    tag=${image##*:}
    [ "${tags:=$tag}" = "$tag" ] || complain "$archive is of version $tag, others are of $tags: remove what is old"
    file=images/$(basename "$archive")
    printf '%s@%s %s\n' "$image" "$digest" "$file" >>"$work/$name/images.txt"
    short=${image##*/}
    printf '    %s: %s\n' "${short%:*}" "$digest" >>"$work/$name/digests.yaml"
    cp "$archive" "$work/$name/images/"
    sbom=${archive%.oci.tar}.cdx.json
    [ -f "$sbom" ] || complain "there is no $sbom: make images writes it beside the archive"
    cp "$sbom" "$work/$name/images/"
done

rendered=$("$helm" template check "$chart" --values "$work/$name/digests.yaml" --set driver.name=check.example.com \
    --set controller.hostPath=/run/check --set resizer.enabled=true --set snapshotter.enabled=true --set healthMonitor.enabled=true) || complain "$chart cannot be rendered, helm says why"
[ -z "$cluster" ] || rendered+=$'\n'$("$helm" template check "$cluster" --values "$work/$name/digests.yaml") || complain "$cluster cannot be rendered, helm says why"
missing=$(sed -n 's/^ *image: *"\{0,1\}\([^" ]*\).*/\1/p' <<<"$rendered" | sort -u |
    { grep -vxF -f <(cut -d' ' -f1 "$work/$name/images.txt") || true; })
[ -z "$missing" ] || complain "the chart names images that are not there: $(tr '\n' ' ' <<<"$missing")"

(cd "$work/$name" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
tar -C "$work" --sort=name --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
    -cf "$folder/$name.tar" "$name"
cat "$work/$name/images.txt"
printf '%s\n' "$folder/$name.tar"
