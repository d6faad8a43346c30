//! A CSI driver for tests: real volumes, real mounts, a record of every call, faults on request.
//!
//! # Layout
//! ```text
//!   socket ──► server ──► instrument (record, faults) ──► service ──► plan (pure) ◄── model
//!                             ▲                              │
//!   control socket ──► control                               ├──► store    (journal, shared)
//!                                                            └──► backing  (mounts, loop devices)
//! ```
//! `invariants` checks a record after the fact; `cleanup` removes what killed drivers have left.

pub mod args;
pub mod backing;
pub mod cleanup;
pub mod clock;
pub mod control;
pub mod instrument;
pub mod invariants;
pub mod model;
pub mod plan;
pub mod run;
pub mod server;
pub mod service;
pub mod size;
pub mod store;
pub mod verb;
