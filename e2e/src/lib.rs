//! Scenarios on a real control plane: the harness.
//!
//! **Layout.** [`cluster`] starts and steers the test cluster, [`api`] talks to its API server,
//! [`process`] owns every program that a scenario starts, [`node`] runs the driver and the
//! registrar on a node, [`node_agent`] does what a kubelet does for volumes where there is none,
//! [`deployment`] runs both everywhere and pods that use their volumes, [`controller`] runs a
//! sidecar under its service account, [`chart`] renders our charts, [`manifest`] reads what
//! Kubernetes ships, [`requests`] and [`calls`] count what was asked of API server and driver, [`outside`] writes it down,
//! [`proxy`] makes requests fail, [`link`] connections, [`wait`] waits with a reason, [`interrupt`] notes a user's wish
//! to stop, [`story`] tells a demonstration step by step, [`real`] starts a cluster whose node runs
//! containers, [`image`] makes what they are started from and [`stand_in`] gives it the names that manifests have, [`suite`] runs scenarios and gives
//! the verdict.
//!
//! Everything is synchronous: a scenario reads from top to bottom like the story it tells.

pub mod api;
pub mod calls;
pub mod chart;
pub mod cluster;
pub mod controller;
pub mod deployment;
pub mod image;
pub mod interrupt;
pub mod link;
pub mod manifest;
pub mod node;
pub mod node_agent;
pub mod object;
pub mod outside;
pub mod process;
pub mod program;
pub mod proxy;
pub mod real;
pub mod requests;
pub mod snapshots;
pub mod stand_in;
pub mod story;
pub mod suite;
pub mod wait;
