//! The harness for scenarios on a real control plane.
//!
//! **Layout.** [`cluster`] starts and controls the test cluster, [`api`] is a client of its API server, [`process`]
//! owns every program that a scenario starts, [`node`] runs the driver and the registrar on a node, [`node_agent`] does
//! kubelet's part for volumes where there is no kubelet, [`deployment`] runs both on all nodes and pods with their
//! volumes, [`controller`] runs a sidecar under its service account, [`chart`] renders the charts, [`manifest`] reads
//! Kubernetes' manifests, [`requests`] and [`calls`] count requests to API server and driver, [`outside`] records them,
//! [`proxy`] makes requests fail, [`link`] connections, [`wait`] waits with a reason, [`interrupt`] records a user's
//! signal, [`story`] prints a demonstration step by step, [`real`] starts a cluster whose node runs containers,
//! [`image`] builds their images and [`stand_in`] gives these the names in manifests, [`traces`] collects traces,
//! [`suite`] runs scenarios and prints the verdict.
//!
//! Everything is synchronous: a scenario reads from top to bottom.

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
pub mod traces;
pub mod wait;
