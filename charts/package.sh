#!/usr/bin/env bash
# The charts as files, with the registry of the images that were pushed as their default.
#
# usage: charts/package.sh HELM VERSION REGISTRY FOLDER [SOURCE]   by `make chart-package`
set -euo pipefail
helm=$1 version=$2 registry=$3 folder=$4 source=${5:-}
[[ $registry =~ ^[a-z0-9.:_-]+(/[a-z0-9._-]+)*$ ]] || {
    echo "chart-package needs IMAGE_REGISTRY, the registry and folder that the images were pushed to, such as registry.example.com/storage; not '$registry'" >&2
    exit 1
}
[[ $source =~ ^(https://[^][[:space:]{},#]+)?$ ]] || {
    echo "chart-package: IMAGE_SOURCE is the address of the source, such as https://git.example.com/storage; not '$source'" >&2
    exit 1
}
cd "$(dirname "$0")"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for chart in csi-sidecars snapshot-controller; do
    cp -r "$chart" "$copy"
    values=$copy/$chart/values.yaml
    sed -i "s|^  registry: \"\"\$|  registry: $registry|" "$values"
    [ "$(grep -cx "  registry: $registry" "$values")" = 1 ] || {
        echo "chart-package: values.yaml of $chart has no line for image.registry" >&2
        exit 1
    }
    if [ "$source" ]; then
        printf 'home: %s\nsources: [%s]\n' "$source" "$source" >>"$copy/$chart/Chart.yaml"
    fi
    "$helm" package "$copy/$chart" --version "$version" --app-version "$version" --destination "$folder"
done
