//! One pass of the reconciler: what to start, given what should be and what is.
//!
//! Whether an operation may really start now (one at a time per socket, back-off) is the
//! operation map's business; a refusal there is repeated by the next pass.

use std::path::PathBuf;

use super::world::{Actual, Desired, Incarnation};

/// Something to start on one socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Tell the handler that the plugin behind this socket is gone.
    Unregister(PathBuf),
    /// Talk to the registrar behind this socket.
    Register(PathBuf, Incarnation),
}

impl Operation {
    /// The socket, which is also the key of the operation map.
    #[must_use]
    pub fn socket(&self) -> &PathBuf {
        match self {
            Self::Unregister(socket) | Self::Register(socket, _) => socket,
        }
    }
}

/// Operations that make `actual` look like `desired`.
///
/// Unregistering comes first: a socket that was created again needs both, and the second one is
/// refused while the first one runs.
#[must_use]
pub fn plan_pass(desired: &Desired, actual: &Actual) -> Vec<Operation> {
    let stale = actual
        .plugins()
        .filter(|(socket, plugin)| desired.incarnation(socket) != Some(plugin.incarnation))
        .map(|(socket, _)| Operation::Unregister(socket.to_path_buf()));
    let missing = desired
        .sockets()
        .filter(|(socket, incarnation)| !actual.is_current(socket, *incarnation))
        .map(|(socket, incarnation)| Operation::Register(socket.to_path_buf(), incarnation));
    stale.chain(missing).collect()
}
