//! What tests of every sidecar stand on: a model of the API server, a model of a CSI driver, and
//! builders for the objects they hold.
//!
//! Both models keep state and obey the rules of the real thing, so a test says what the world looks
//! like and what must come out, not which calls it expects. Faults are rules laid over the model,
//! and everything that arrives is recorded.
//!
//! # Layout
//!
//! * [`FakeApi`]: objects, patches, watches and faults of an API server, in process or on a socket.
//! * [`FakeDriver`]: a CSI driver with volumes, faults and a call record.
//! * [`free_address`]: where a program can listen that has to be told.
//! * [`process`][], [`http`][], [`measure`][]: a program under test, its HTTP server, its figures.
//! * [`controller`][]: a controller beside both, and what all controllers have to do.
//! * [`collector`][]: who takes traces.
//! * [`election`][]: a leader that is stopped while another takes its lease.
//! * [`sim`][]: random numbers, API server and storage system of crash simulations.
//! * [`rows`][]: which tests a source has, and which rows of a specification they show.
//! * [`build`][]: `attachment("va1").on("node1").of("pv1")`.
//!
//! A model never guesses what the test meant: misuse panics with a sentence.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test tool fails loudly, reads JSON by field, and makes its own ids"
)]

pub mod address;
pub mod api;
pub mod build;
pub mod collector;
pub mod controller;
pub mod driver;
pub mod election;
pub mod http;
pub mod measure;
pub mod process;
pub mod rows;
pub mod sim;

pub use address::free_address;
pub use api::FakeApi;
pub use api::fault::{Fault, Gate};
pub use driver::FakeDriver;
pub use driver::fault::CallFault;
