//! What all CSI sidecars share.
//!
//! # Layout
//!
//! Pure modules, which know neither clock nor runtime:
//! [`alike`], [`duration`], [`quantity`], [`refusal`], [`flags`], [`keyed_guard`], [`gates`], [`names`], [`node_selector`], [`retry`],
//! [`redact`], [`rpc_code`],
//! [`slow_set`], [`template`], [`text`], [`visible`], [`waits`], [`error`].
//!
//! Shell modules, which act:
//! [`build`] (which build it is), [`log`], [`csi`] (the driver's socket), [`http`] and [`metrics`] (what the sidecar shows),
//! [`queue`] (what a controller works on next), [`election`] (whether it may work at all),
//! [`shutdown`] and [`rt`] (how it starts and ends), [`clock`] (what time it is for all of them).
//!
//! Behind the feature `in-cluster`: `in_cluster` (whether it is the API server that was meant, and a client of it for
//! programs that are too small for Kubernetes' library).
//!
//! Behind the feature `kube`: `kube` (the API server), `controller` (what every controller does
//! around its work), `lifecycle` (how long users wait), `secure` (servers that speak TLS and ask who their clients are), `snapshot` (words that the two
//! programs for snapshots share), `trace` (exports traces to a collector), `uid` (which object of a name).
//!
//! Nothing here knows a particular sidecar.
#![warn(missing_docs)]

pub mod alike;
pub mod build;
pub mod clock;
#[cfg(feature = "kube")]
pub mod controller;
pub mod csi;
pub mod duration;
pub mod election;
pub mod error;
pub mod flags;
pub mod gates;
pub mod http;
#[cfg(feature = "in-cluster")]
pub mod in_cluster;
pub mod keyed_guard;
#[cfg(feature = "kube")]
pub mod kube;
#[cfg(feature = "kube")]
pub mod lifecycle;
pub mod log;
pub mod metrics;
pub mod names;
pub mod node_selector;
pub mod outage;
pub mod quantity;
pub mod queue;
pub mod redact;
pub mod refusal;
pub mod retry;
pub mod rpc_code;
pub mod rt;
pub mod secret;
#[cfg(feature = "kube")]
pub mod secure;
pub mod shutdown;
pub mod slow_set;
#[cfg(feature = "kube")]
pub mod snapshot;
pub mod template;
pub mod text;
#[cfg(feature = "kube")]
pub mod trace;
#[cfg(feature = "kube")]
pub mod uid;
pub mod visible;
pub mod waits;
