#!/usr/bin/env bash
# run.sh against stand-ins for kind, docker, kubectl, helm and git, which write down what they are asked and know a few
# answers. Shows the order of commands and how run.sh ends; not that a cluster would do what is asked.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
registry=registry.example.com/storage
failed=0
complain() { printf 'e2e-kind dry run: %s\n' "$*" >&2; failed=1; }

# Nothing but these can be found: no tool of this machine takes part.
mkdir "$work/bin" "$work/images"
for tool in bash cat chmod dirname env grep mkdir sed tr uname; do ln -s "$(command -v "$tool")" "$work/bin/$tool"; done

stand_in() { cat >"$work/bin/$1"; chmod +x "$work/bin/$1"; }
for tool in docker kind; do
    stand_in "$tool" <<'SH'
#!/usr/bin/env bash
echo "${0##*/} $*" >>"$LOG"
case "${0##*/} $*" in
    "kind create cluster --name "* | "kind delete cluster --name "*) ;;
    "kind load image-archive --name "*) [ -f "${!#}" ] || { echo "no archive ${!#}" >&2; exit 1; } ;;
    *) echo "unknown: $*" >&2; exit 1 ;;
esac
SH
done
stand_in helm <<'SH'
#!/usr/bin/env bash
echo "helm $*" >>"$LOG"
case $1 in
    install) [ -f "$3/Chart.yaml" ] || { echo "no chart $3" >&2; exit 1; } ;;
    uninstall) ;;
    *) echo "unknown: $*" >&2; exit 1 ;;
esac
SH
# The driver's repository: a deploy.sh that says which variables it got.
stand_in git <<'SH'
#!/usr/bin/env bash
echo "git $*" >>"$LOG"
folder=${!#}
mkdir -p "$folder/deploy/kubernetes-latest" "$folder/examples"
for file in storageclass pvc app; do echo "kind: $file" >"$folder/examples/csi-$file.yaml"; done
cat >"$folder/deploy/kubernetes-latest/deploy.sh" <<'DEPLOY'
#!/usr/bin/env bash
env | grep -E '^[A-Z_]+_(REGISTRY|TAG|RULES)=' | sed 's/^/deploy.sh /' >>"$LOG"
DEPLOY
chmod +x "$folder/deploy/kubernetes-latest/deploy.sh"
SH
stand_in kubectl <<'SH'
#!/usr/bin/env bash
echo "kubectl $*" >>"$LOG"
[ -z "${FAIL:-}" ] || [[ "$*" != *"$FAIL"* ]] || exit 1
[ "$1" != --namespace ] || shift 2
case "$*" in
    apply*"--filename -") grep '^kind: ' >/dev/null || { echo "nothing to apply" >&2; exit 1; } ;;
    apply*) [ -f "${!#}" ] || { echo "no file ${!#}" >&2; exit 1; } ;;
    get*containers*image*) echo "$USED" ;;
    get*restartCount*) echo "${RESTARTS:-0 0 0 0 0 0 0}" ;;
    get*volumeName*) echo pvc-1 ;;
    get*boundVolumeSnapshotContentName*) echo content-1 ;;
    exec*cat*) echo "${FOUND:-it stays}" ;;
    delete* | describe* | exec* | get* | logs* | patch* | rollout* | wait*) ;;
    *) echo "unknown: $*" >&2; exit 1 ;;
esac
SH

all="csi-attacher csi-external-health-monitor-controller csi-node-driver-registrar csi-provisioner csi-resizer csi-snapshotter livenessprobe snapshot-controller csi-sidecars"
for name in $all; do : >"$work/images/$name-amd64.oci.tar"; : >"$work/images/$name-arm64.oci.tar"; done
ours=$(for name in $all; do echo "$registry/$name:dev"; done | sed -n '1,7p')
# A copy, so that what the driver's stand-in writes is not in this tree.
mkdir -p "$work/tree/e2e/kind"
cp e2e/kind/run.sh "$work/tree/e2e/kind/"
ln -s "$PWD/charts" "$work/tree/charts"

# $1: the exit code that is expected; then variables. What it says is in $work/said, what was asked in $work/log.
run() {
    local expected=$1 code=0
    shift
    rm -rf "$work/tree/build" "$work/log"
    : >"$work/log"
    env -i PATH="$work/bin" HELM=helm LOG="$work/log" USED="$(tr '\n' ' ' <<<"$ours")registry.example.com/hostpathplugin:v1" "$@" \
        bash "$work/tree/e2e/kind/run.sh" "$work/images" "$registry" dev >"$work/said" 2>&1 || code=$?
    [ "$code" = "$expected" ] || { complain "exit code $code, not $expected, with: $*"; cat "$work/said" >&2; }
}
asked() { grep -qF -- "$1" "$work/log" || complain "was not asked: $1"; }
unasked() { ! grep -qF -- "$1" "$work/log" || complain "was asked: $1"; }
says() { grep -qF -- "$1" "$work/said" || { complain "does not say: $1"; cat "$work/said" >&2; }; }

run 0
says "==> e2e-kind: passed"
for name in $all; do asked "/images/$name-"; done
for name in CSI_ATTACHER CSI_EXTERNAL_HEALTH_MONITOR_CONTROLLER CSI_NODE_DRIVER_REGISTRAR CSI_PROVISIONER CSI_RESIZER CSI_SNAPSHOTTER LIVENESSPROBE; do
    asked "deploy.sh ${name}_REGISTRY=$registry"
    asked "deploy.sh ${name}_TAG=dev"
done
asked "deploy.sh UPDATE_RBAC_RULES=false"
asked "kubectl wait --for delete volumesnapshotcontent/content-1"
asked "kubectl wait --for delete pv/pvc-1"
asked "helm uninstall together"
[ "$(head -n 1 "$work/log")" = "kind create cluster --name csi-sidecars --wait 180s" ] || complain "the cluster is not the first that is asked for"
[ "$(tail -n 1 "$work/log")" = "kind delete cluster --name csi-sidecars" ] || complain "the cluster is not deleted at the end"

# Whatever fails, an engineer sees the driver's pod, and nothing is left.
for wrong in "USED=registry.k8s.io/sig-storage/csi-attacher:v4" "FOUND=something else" "RESTARTS=0 1 0" "FAIL=wait --for condition=Ready"; do
    run 1 "$wrong"
    asked "kubectl describe pod csi-hostpathplugin-0"
    asked "kind delete cluster"
done
run 1 KEEP=1 FOUND=other
unasked "kind delete cluster"
rm "$work/images/csi-snapshotter-"*
run 1
says "csi-snapshotter"
asked "kind delete cluster"

# A tool that is missing is named before anything is asked for.
rm "$work/bin/docker"
run 1
says "docker is missing"
unasked "kind"

exit "$failed"
