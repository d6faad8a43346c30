//! The foundation of all sidecars' tests: a model of the API server, a model of a CSI driver, and
//! builders for their objects.
//!
//! Both models keep state and obey the rules of the real thing, so a test describes the initial
//! state and the expected result, not the expected calls. Faults are rules on top of the model, and
//! everything that arrives is recorded.
//!
//! # Layout
//!
//! * [`FakeApi`]: objects, patches, watches and faults of an API server, in process or on a socket.
//! * [`FakeDriver`]: a CSI driver with volumes, faults and a call record.
//! * [`free_address`], [`leave_dead_socket`]: a listen address for a program, a socket file without a server.
//! * [`process`][], [`http`][], [`measure`][]: a program under test, its HTTP server, its figures.
//! * [`controller`][]: a controller with both models, and the contract of all controllers.
//! * [`collector`][]: a model of a trace collector.
//! * [`election`][]: a leader that is stopped while another takes its lease.
//! * [`sim`][]: random numbers, API server and storage system of crash simulations.
//! * [`rows`][]: the tests of a source, and the rows of a specification that they show.
//! * [`build`][]: `attachment("va1").on("node1").of("pv1")`.
//!
//! A model never guesses the test's intent: misuse panics with a sentence.

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

pub use address::{free_address, leave_dead_socket};
pub use api::FakeApi;
pub use api::fault::{Fault, Gate};
pub use driver::FakeDriver;
pub use driver::fault::CallFault;
