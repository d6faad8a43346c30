//! Registers a CSI driver with kubelet: `csi-node-driver-registrar` and, with the feature `plugin-manager`, kubelet's
//! side of the same conversation.
//!
//! The registrar only talks to the driver and to kubelet, over two unix sockets; it needs no Kubernetes client and no
//! permission in the cluster.
//!
//! # Layout
//!
//! [`args`] the configuration from the flags, [`driver`] the driver's name and its restarts, [`socket`] the
//! registration socket as a file, [`directory`] a watch of its directory, [`serve`] keeping the socket in place and
//! serving it, [`registration`] the answers, [`registration_status`] kubelet's progress, [`health`] HTTP, [`registrar`]
//! all of it in a process, [`run`] the program.
//! [`grpc`] and [`authority`] make an HTTP/2 server that kubelet can talk to.

pub mod args;
pub mod authority;
pub mod directory;
pub mod driver;
pub mod grpc;
pub mod health;
#[cfg(feature = "plugin-manager")]
pub mod kubelet;
pub mod registrar;
pub mod registration;
pub mod registration_status;
pub mod run;
pub mod serve;
pub mod socket;
