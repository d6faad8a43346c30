//! The plugin in a registrar's `GetInfo` reply, and the texts of refusals.

use std::path::Path;

use super::keys::clip;

/// The endpoint of the plugin: the one in the reply, or else the registration socket itself.
#[must_use]
pub fn endpoint_or(endpoint: String, socket: &Path) -> String {
    if endpoint.is_empty() {
        socket.to_string_lossy().into_owned()
    } else {
        endpoint
    }
}

/// Why a registration attempt is refused; the registrar gets the text, which is kubelet's, with `plugin_registered =
/// false`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The plugin type has no handler.
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
    /// The handler rejects the plugin.
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
