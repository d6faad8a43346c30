#!/usr/bin/env bash
# csi-driver-host-path on kind with our images, twice.
#
# First as its project deploys it, with our sidecars under upstream's names and our snapshot-controller: a volume is
# created, written, found again by another pod, snapshotted, restored, grown while it is in use, and deleted. Then from our
# chart of the demonstration with one process for all sidecars: a volume is created, written and deleted.
#
# Never run on a real kind, which needs docker. e2e/kind/dry-run.sh runs it against stand-ins for kind, docker, kubectl, helm
# and git: that shows which commands it gives in which order, and that it ends as it should when one of them fails. Nothing has
# shown that the images start there, that the driver's deploy.sh works with them, or that these values of the chart fit a
# kind node.
#
# Usage: run.sh FOLDER-OF-IMAGES REGISTRY TAG. KEEP=1 leaves the cluster. HELM=path: another helm than bin/helm.
set -euo pipefail
cd "$(dirname "$0")/../.."
images=$1 registry=$2 tag=$3

DRIVER=v1.18.0       # csi-driver-host-path
CLUSTER=csi-sidecars
helm=${HELM:-bin/helm}
# Under upstream's names in the driver's pod; the others are of the cluster, or all in one process.
SIDECARS="csi-attacher csi-external-health-monitor-controller csi-node-driver-registrar csi-provisioner csi-resizer csi-snapshotter livenessprobe"
OTHERS="snapshot-controller csi-sidecars"

say() { printf '==> e2e-kind: %s\n' "$*"; }

# The pod $1 with the claim $2 of the StorageClass $3; $4: more of the claim's spec.
pod() {
    cat <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $2}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: $3
  resources: {requests: {storage: 1Gi}}
  ${4:-}
---
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  containers:
    - name: app
      image: busybox
      command: [sleep, "100000"]
      volumeMounts: [{name: data, mountPath: /data}]
  volumes:
    - name: data
      persistentVolumeClaim: {claimName: $2}
YAML
}

for tool in kind kubectl docker git "$helm"; do
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
        kubectl get volumesnapshots,volumesnapshotcontents --all-namespaces --output wide || true
        kubectl logs --namespace together --selector app.kubernetes.io/instance=together --all-containers --prefix --tail 100 || true
    fi
    [ -n "${KEEP:-}" ] || kind delete cluster --name "$CLUSTER"
    exit "$code"
}

say "cluster"
kind create cluster --name "$CLUSTER" --wait 180s
trap finish EXIT

say "images"
for name in $SIDECARS $OTHERS; do
    kind load image-archive --name "$CLUSTER" "$images/$name-$architecture.oci.tar"
done
for name in $SIDECARS; do
    variable=$(tr a-z- A-Z_ <<<"$name")
    export "${variable}_REGISTRY=$registry" "${variable}_TAG=$tag"
done

say "snapshot-controller, with the definitions of the API"
"$helm" install snapshot-controller charts/snapshot-controller --namespace kube-system \
    --set "image.registry=$registry" --set "image.tag=$tag"
kubectl --namespace kube-system rollout status deployment/snapshot-controller --timeout 180s

say "csi-driver-host-path $DRIVER"
driver=build/csi-driver-host-path
[ -d "$driver" ] || git -c advice.detachedHead=false clone --quiet --depth 1 --branch "$DRIVER" \
    https://github.com/kubernetes-csi/csi-driver-host-path "$driver"
# The permissions stay those of upstream's versions.
UPDATE_RBAC_RULES=false "$driver/deploy/kubernetes-latest/deploy.sh"
used=$(kubectl get pod csi-hostpathplugin-0 --output 'jsonpath={.spec.containers[*].image}')
ours=$(tr ' ' '\n' <<<"$used" | grep -c "^$registry/" || true)
[ "$ours" = 7 ] || { echo "e2e-kind: $ours of 7 sidecars are ours: $used" >&2; exit 1; }

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

say "snapshot, and a volume that begins as it"
kubectl apply --filename - <<'YAML'
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: before}
spec:
  volumeSnapshotClassName: csi-hostpath-snapclass
  source: {persistentVolumeClaimName: csi-pvc}
YAML
kubectl wait --for 'jsonpath={.status.readyToUse}=true' volumesnapshot/before --timeout 180s
kubectl exec my-csi-app -- sh -c 'echo it changes > /data/file'
pod restored restored csi-hostpath-sc 'dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: before}' |
    kubectl apply --filename -
kubectl wait --for condition=Ready pod/restored --timeout 180s
[ "$(kubectl exec restored -- cat /data/file)" = "it stays" ]
kubectl delete pod restored --grace-period 1
kubectl delete pvc restored
content=$(kubectl get volumesnapshot before --output 'jsonpath={.status.boundVolumeSnapshotContentName}')
kubectl delete volumesnapshot before
kubectl wait --for delete "volumesnapshotcontent/$content" --timeout 180s

say "expansion"
kubectl patch pvc csi-pvc --patch '{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}'
kubectl wait --for 'jsonpath={.status.capacity.storage}=2Gi' pvc/csi-pvc --timeout 180s

say "deletion"
kubectl delete pod my-csi-app --grace-period 1
kubectl delete pvc csi-pvc
kubectl wait --for delete "pv/$volume" --timeout 180s
restarts=$(kubectl get pod csi-hostpathplugin-0 --output 'jsonpath={.status.containerStatuses[*].restartCount}')
[ -z "$(tr -d ' 0' <<<"$restarts")" ] || { echo "e2e-kind: restarted: $restarts" >&2; exit 1; }

say "one process for all sidecars"
"$helm" install together charts/csi-driver-host-path-demo --namespace together --create-namespace \
    --set "csi-sidecars.image.registry=$registry" --set "csi-sidecars.image.tag=$tag" \
    --set csi-sidecars.sidecars=together --set csi-sidecars.driver.name=together.csi.example.com \
    --set csi-sidecars.snapshotter.enabled=true --set csi-sidecars.features.snapshots=true \
    --set driver.dataDirectory=/var/lib/csi-together-data --set storageClass.name=together
kubectl --namespace together wait --for condition=Ready pod --all --timeout 180s
pod app data together | kubectl --namespace together apply --filename -
kubectl --namespace together wait --for condition=Ready pod/app --timeout 180s
kubectl --namespace together exec app -- sh -c 'echo it stays > /data/file'
volume=$(kubectl --namespace together get pvc data --output 'jsonpath={.spec.volumeName}')
kubectl --namespace together delete pod app --grace-period 1
kubectl --namespace together delete pvc data
kubectl wait --for delete "pv/$volume" --timeout 180s
"$helm" uninstall together --namespace together --wait
say "passed"
