//! Kubelet's side of plugin registration: finds registration sockets, talks to the registrars
//! behind them, asks the drivers who they are and writes Node and CSINode.
//!
//! It exists for people who bring a driver up without a kubelet and for tests that steer what
//! kubelet would do; it behaves like kubelet 1.36 (the differences are in `docs/parity.md`).
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
//! * [`run`] puts them together, [`args`] and [`program`] make the binary csi-plugin-manager of it.

pub mod args;
pub mod plan;
pub mod program;
pub mod run;
pub mod work;
