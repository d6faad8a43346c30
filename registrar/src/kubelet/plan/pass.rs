//! One pass of the reconciler: the operations to start, given the desired and the actual sockets.
//!
//! The operation map decides whether an operation may start now (one at a time per socket, back-off); the next pass
//! repeats a refused one.

use std::path::PathBuf;

use super::world::{Actual, Desired, Incarnation};

/// An operation to start on one socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Tell the handler that the plugin behind this socket is gone.
    Unregister(PathBuf),
    /// Register the plugin of the registrar behind this socket.
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
