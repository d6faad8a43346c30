//! What introduces a CSI driver to kubelet: `csi-node-driver-registrar` and, with the feature
//! `plugin-manager`, kubelet's side of the same conversation.
//!
//! The registrar talks to the driver and to kubelet over two unix sockets and to nobody else; it
//! needs no Kubernetes client and no permission in the cluster.

pub mod authority;

#[cfg(feature = "plugin-manager")]
pub mod kubelet;
