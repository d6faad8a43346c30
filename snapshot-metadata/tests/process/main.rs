//! The built program between backup clients, a model API server and a model driver. Test names carry the
//! rows of the specification.
//!
//! Set `CSI_SNAPSHOT_METADATA_BINARY=path` to test another build.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::too_many_lines,
    reason = "a test that panics has failed, which is what it is for; tables are long"
)]

mod call;
mod command_line;
mod driver;
mod end;
mod hostile;
mod iterator;
mod load;
mod objects;
mod shown;
mod stage;
mod stream;
mod tls;
