//! Shared code of all CSI sidecars.
//!
//! # Layout
//!
//! Pure modules, without clock or runtime:
//! [`alike`], [`duration`], [`quantity`], [`refusal`], [`flags`], [`keyed_guard`], [`gates`], [`mutex`], [`names`], [`node_selector`], [`part`], [`retry`],
//! [`redact`], [`rpc_code`],
//! [`slow_set`], [`template`], [`text`], [`visible`], [`waits`], [`error`].
//!
//! Shell modules, which act:
//! [`build`] (the build's identity), [`log`], [`csi`] (the driver's socket), [`http`] and [`metrics`] (the HTTP
//! server's pages), [`queue`] (a controller's work queue), [`election`] (leader election), [`shutdown`] and [`rt`]
//! (start and end of a process), [`clock`] (the time, for all of them).
//!
//! Behind the feature `in-cluster`: `in_cluster` (whether the API server is the right one, and a client of it for
//! programs that are too small for Kubernetes' library).
//!
//! Behind the feature `kube`: `kube` (the API server), `controller` (the frame around every controller's work),
//! `lifecycle` (how long users wait), `secure` (TLS servers that authenticate their clients), `snapshot` (names that
//! the two snapshot programs share), `trace` (exports traces to a collector), `uid` (UIDs of objects),
//! `why` (answers about the work on one object).
//!
//! This crate knows no particular sidecar.
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
pub mod mutex;
pub mod names;
pub mod node_selector;
pub mod outage;
pub mod part;
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
#[cfg(feature = "kube")]
pub mod why;
