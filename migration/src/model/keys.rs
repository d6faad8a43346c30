//! Keys of labels, annotations, topology and parameters that are used in more than one place.

/// Zone of a node or volume.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Region of a node or volume.
pub const REGION: &str = "topology.kubernetes.io/region";
/// [`ZONE`] before Kubernetes 1.17.
pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// [`REGION`] before Kubernetes 1.17.
pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Separator of the zones in a label with several.
pub const LABEL_SEPARATOR: &str = "__";

/// Parameter of a class: the file system of its volumes.
pub const FS_TYPE_PARAMETER: &str = "csi.storage.k8s.io/fstype";

/// Annotation: Azure resource group of a file share.
pub const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";
/// Annotation and class parameter: name of the Secret for Portworx.
pub const AUTH_SECRET_NAME: &str = "openstorage.io/auth-secret-name";
/// Annotation and class parameter: namespace of that Secret.
pub const AUTH_SECRET_NAMESPACE: &str = "openstorage.io/auth-secret-namespace";

/// Unknown part of a handle.
pub const UNSPECIFIED: &str = "UNSPECIFIED";
