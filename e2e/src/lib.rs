//! Scenarios on a real control plane: the harness.
//!
//! **Layout.** [`cluster`] starts and steers the test cluster, [`api`] talks to its API server,
//! [`process`] owns every program that a scenario starts, [`node`] runs the driver and the
//! registrar on a node, [`deployment`] runs both everywhere and pods that use their volumes,
//! [`controller`] runs a sidecar under its service account, [`manifest`] reads what Kubernetes ships, [`requests`] and
//! [`calls`] count what was asked of API server and driver, [`proxy`] makes requests fail, [`wait`]
//! waits with a reason, [`suite`] runs scenarios and gives the verdict.
//!
//! Everything is synchronous: a scenario reads from top to bottom like the story it tells.

pub mod api;
pub mod calls;
pub mod cluster;
pub mod controller;
pub mod deployment;
pub mod manifest;
pub mod node;
pub mod object;
pub mod process;
pub mod program;
pub mod proxy;
pub mod requests;
pub mod snapshots;
pub mod story;
pub mod suite;
pub mod wait;
