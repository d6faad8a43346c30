#!/usr/bin/env bash
# csi-driver-host-path on kind as its project deploys it, with our sidecars under upstream's names:
# a volume is created, written, found again by another pod, grown while it is in use, and deleted.
#
# Usage: run.sh FOLDER-OF-IMAGES REGISTRY TAG. KEEP=1 leaves the cluster.
set -euo pipefail
cd "$(dirname "$0")/../.."
images=$1 registry=$2 tag=$3

DRIVER=v1.18.0       # csi-driver-host-path
SNAPSHOTTER=v8.6.0   # definitions that the driver's csi-snapshotter wants, which stays upstream's
CLUSTER=csi-sidecars

say() { printf '==> e2e-kind: %s\n' "$*"; }
for tool in kind kubectl docker git; do
    command -v "$tool" >/dev/null || {
        echo "e2e-kind: $tool is missing; see https://kind.sigs.k8s.io" >&2
        exit 1
    }
done
case $(uname -m) in
    x86_64) architecture=amd64 ;;
    aarch64) architecture=arm64 ;;
    *) echo "e2e-kind: no images for $(uname -m)" >&2; exit 1 ;;
esac

# What an engineer wants to see when it failed; then nothing is left.
finish() {
    local code=$?
    if [ "$code" != 0 ]; then
        kubectl get pods,pvc,pv,volumeattachments --all-namespaces --output wide || true
        kubectl describe pod csi-hostpathplugin-0 || true
        kubectl logs csi-hostpathplugin-0 --all-containers --prefix --tail 100 || true
    fi
    [ -n "${KEEP:-}" ] || kind delete cluster --name "$CLUSTER"
    exit "$code"
}

say "cluster"
kind create cluster --name "$CLUSTER" --wait 180s
trap finish EXIT

say "images"
for name in csi-attacher csi-node-driver-registrar csi-provisioner csi-resizer livenessprobe; do
    kind load image-archive --name "$CLUSTER" "$images/$name-$architecture.oci.tar"
    variable=$(tr a-z- A-Z_ <<<"$name")
    export "${variable}_REGISTRY=$registry" "${variable}_TAG=$tag"
done

say "csi-driver-host-path $DRIVER"
driver=build/csi-driver-host-path
[ -d "$driver" ] || git -c advice.detachedHead=false clone --quiet --depth 1 --branch "$DRIVER" \
    https://github.com/kubernetes-csi/csi-driver-host-path "$driver"
kubectl apply --kustomize "https://github.com/kubernetes-csi/external-snapshotter/client/config/crd?ref=$SNAPSHOTTER"
# The permissions stay those of upstream's versions.
UPDATE_RBAC_RULES=false "$driver/deploy/kubernetes-latest/deploy.sh"
used=$(kubectl get pod csi-hostpathplugin-0 --output 'jsonpath={.spec.containers[*].image}')
ours=$(tr ' ' '\n' <<<"$used" | grep -c "^$registry/" || true)
[ "$ours" = 5 ] || { echo "e2e-kind: $ours of 5 sidecars are ours: $used" >&2; exit 1; }

say "volume"
for file in storageclass pvc app; do kubectl apply --filename "$driver/examples/csi-$file.yaml"; done
kubectl wait --for condition=Ready pod/my-csi-app --timeout 180s
volume=$(kubectl get pvc csi-pvc --output 'jsonpath={.spec.volumeName}')
kubectl exec my-csi-app -- sh -c 'echo it stays > /data/file'

say "another pod"
kubectl delete pod my-csi-app --grace-period 1
kubectl apply --filename "$driver/examples/csi-app.yaml"
kubectl wait --for condition=Ready pod/my-csi-app --timeout 180s
[ "$(kubectl exec my-csi-app -- cat /data/file)" = "it stays" ]

say "expansion"
kubectl patch pvc csi-pvc --patch '{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}'
kubectl wait --for 'jsonpath={.status.capacity.storage}=2Gi' pvc/csi-pvc --timeout 180s

say "deletion"
kubectl delete pod my-csi-app --grace-period 1
kubectl delete pvc csi-pvc
kubectl wait --for delete "pv/$volume" --timeout 180s
restarts=$(kubectl get pod csi-hostpathplugin-0 --output 'jsonpath={.status.containerStatuses[*].restartCount}')
[ -z "$(tr -d ' 0' <<<"$restarts")" ] || { echo "e2e-kind: restarted: $restarts" >&2; exit 1; }
say "passed"
