//! Kubelet's side of a volume's life on a node: stages and publishes the volumes of the pods bound
//! to this node, and takes them down again.
//!
//! It exists for people who bring a driver up without a kubelet and a container runtime. It does
//! what kubelet 1.36 does with CSI volumes (the differences are in `docs/parity.md`), on top of the
//! registration loop of [`registrar::kubelet`]. Containers are not run.
//!
//! # Layout
//!
//! ```text
//! pods, Node ─► wanted ─┐                      ┌─► driver socket (NodeStageVolume, …)
//!                       ├─ decide ─► operation ┼─► kubelet's directory
//! disk (start) ─► have ─┘      ▲    (a script) └─► API server (Node status, events, pods)
//!                  ▲           └──── back-off ───────┐
//!                  └──────────────────── outcome ────┘
//! ```
//!
//! * [`model`]: API objects, reduced to the fields that the agent reads.
//! * [`plan`] decides: pure, synchronous, no clock, no I/O. An operation is a function of the
//!   replies so far that returns the next step, so a crash needs no handling of its own.
//! * [`work`] executes the decisions.
//! * [`run`] assembles them, [`args`] and [`program`] turn them into the binary csi-node-agent.

pub mod args;
pub mod model;
pub mod plan;
pub mod program;
pub mod run;
pub mod work;
