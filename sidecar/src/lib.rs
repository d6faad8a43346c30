//! Code that all CSI sidecars share.
//!
//! # Layout
//!
//! Pure modules, which use neither clock nor runtime:
//! [`alike`], [`duration`], [`quantity`], [`refusal`], [`flags`], [`keyed_guard`], [`gates`], [`names`], [`node_selector`], [`retry`],
//! [`redact`], [`rpc_code`],
//! [`slow_set`], [`template`], [`text`], [`visible`], [`waits`], [`error`].
//!
//! Shell modules, which act:
//! [`build`] (version and revision), [`log`], [`csi`] (the driver's socket), [`http`] and [`metrics`] (health and
//! metrics), [`queue`] (the work queue), [`election`] (leader election), [`shutdown`] and [`rt`] (start and end of the
//! process), [`clock`] (a clock that counts suspended time).
//!
//! Behind the feature `in-cluster`: `in_cluster` (verification of the API server's certificate, and a small client for
//! programs that do without Kubernetes' library).
//!
//! Behind the feature `kube`: `kube` (the API server), `controller` (the runtime of every controller), `secure` (TLS
//! servers that authenticate their clients), `snapshot` (strings that the two snapshot programs share), `trace`
//! (exports traces to a collector), `uid` (distinguishes objects of the same name).
//!
//! Nothing here depends on a particular sidecar.
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
