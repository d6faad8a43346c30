//! Kubelet's side of plugin registration: finds registration sockets, talks to their registrars, gets the drivers' data
//! about the node, and writes Node and CSINode.
//!
//! It exists for people who bring a driver up without a kubelet, and for tests that control kubelet's behaviour; it
//! behaves like kubelet 1.36 (the differences are in `docs/parity.md`).
//!
//! # Layout
//!
//! ```text
//! inotify ─► desired ─┐                    ┌─► registration socket (GetInfo, Notify…)
//!                     ├─ plan_pass ─► work ┼─► driver socket (NodeGetInfo)
//!            actual ──┘      ▲             └─► API server (Node, CSINode)
//!               ▲            └── operation map with back-off ──┐
//!               └───────────────────────────── outcome ────────┘
//! ```
//!
//! * [`plan`] decides: pure, synchronous, no clock, no I/O.
//! * [`work`] executes the decisions.
//! * [`run`] assembles them; [`args`] and [`program`] are the program csi-plugin-manager.

pub mod args;
pub mod plan;
pub mod program;
pub mod run;
pub mod work;
