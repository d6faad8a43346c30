#!/usr/bin/env bash
# The chart as a file, with the registry of the images that were pushed as its default.
#
# usage: charts/package.sh HELM VERSION REGISTRY FOLDER   by `make chart-package`
set -euo pipefail
helm=$1 version=$2 registry=$3 folder=$4
[[ $registry =~ ^[a-z0-9.:_-]+(/[a-z0-9._-]+)*$ ]] || {
    echo "chart-package needs IMAGE_REGISTRY, the registry and folder that the images were pushed to, such as registry.example.com/storage; not '$registry'" >&2
    exit 1
}
cd "$(dirname "$0")"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r csi-sidecars "$copy"
values=$copy/csi-sidecars/values.yaml
sed -i "s|^  registry: \"\"\$|  registry: $registry|" "$values"
[ "$(grep -cx "  registry: $registry" "$values")" = 1 ] || {
    echo "chart-package: values.yaml has no line for image.registry" >&2
    exit 1
}
"$helm" package "$copy/csi-sidecars" --version "$version" --app-version "$version" --destination "$folder"
