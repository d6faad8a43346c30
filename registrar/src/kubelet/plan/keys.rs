//! Names that other programs use: annotations, plugin types, the plugins migrated to CSI.

use sidecar::text::truncated;

/// Node annotation that maps driver names to node ids, a JSON object (kubelet,
/// `csi.volume.kubernetes.io/nodeid`).
pub const NODE_ID_ANNOTATION: &str = "csi.volume.kubernetes.io/nodeid";

/// CSINode annotation that lists the in-tree plugins whose volumes this kubelet hands to CSI
/// (`k8s.io/api/storage/v1`, read by the scheduler and the attach/detach controller).
pub const MIGRATED_PLUGINS_ANNOTATION: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// Value of [`MIGRATED_PLUGINS_ANNOTATION`] that kubelet 1.36 writes, sorted; unconditional since then.
pub const MIGRATED_PLUGINS: [&str; 7] = [
    "kubernetes.io/aws-ebs",
    "kubernetes.io/azure-disk",
    "kubernetes.io/azure-file",
    "kubernetes.io/cinder",
    "kubernetes.io/gce-pd",
    "kubernetes.io/portworx-volume",
    "kubernetes.io/vsphere-volume",
];

/// `PluginInfo.type` of a CSI driver (`pluginregistration`, `GetInfo`).
pub const CSI_PLUGIN: &str = "CSIPlugin";

/// Longest text from a registrar or driver (plugin type, driver name, error) that is repeated in a log line or an
/// error.
pub const QUOTED_TEXT_LIMIT: usize = 1024;

/// `text`, cut at [`QUOTED_TEXT_LIMIT`] bytes: a registration server or driver may answer with
/// megabytes, which must not come back in logs and notifications.
#[must_use]
pub fn clip(text: &str) -> &str {
    truncated(text, QUOTED_TEXT_LIMIT)
}
