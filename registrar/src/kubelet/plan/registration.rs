//! What a registrar's `GetInfo` reply means, and the texts it is told.

use std::path::Path;

use super::keys::clip;

/// The endpoint of the plugin: what the registrar says, or else the registration socket itself.
#[must_use]
pub fn endpoint_or(endpoint: String, socket: &Path) -> String {
    if endpoint.is_empty() {
        socket.to_string_lossy().into_owned()
    } else {
        endpoint
    }
}

/// Why a registration attempt is refused; the text is sent to the registrar with
/// `plugin_registered = false` and is kubelet's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody here knows the plugin type.
    #[error(
        "RegisterPlugin error -- no handler registered for plugin type: {} at socket {socket}",
        clip(kind)
    )]
    NoHandler {
        /// `PluginInfo.type`.
        kind: String,
        /// The registration socket.
        socket: String,
    },
    /// The handler does not want the plugin.
    #[error("RegisterPlugin error -- plugin validation failed with err: {}", clip(.0))]
    Invalid(String),
    /// The handler could not register the plugin.
    #[error("RegisterPlugin error -- plugin registration failed with err: {}", clip(.0))]
    Failed(String),
}

/// The error of an attempt whose refusal could not be delivered either.
#[must_use]
pub fn undelivered(refusal: &str, failure: &str) -> String {
    format!("{refusal}: {failure}")
}
