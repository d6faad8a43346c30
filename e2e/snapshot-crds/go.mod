module csi-sidecars/e2e/snapshot-crds

go 1.26.0

// The CustomResourceDefinitions of snapshots lie in this module, in config/crd, where tests read them.
require github.com/kubernetes-csi/external-snapshotter/client/v8 v8.7.0
