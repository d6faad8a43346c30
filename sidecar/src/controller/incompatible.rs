//! Why a controller cannot go on with a driver that restarted.

/// The driver restarted with another identity or other capabilities; the process ends with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncompatibleDriver {
    /// Another driver answers on the socket.
    #[error(
        "the driver on the CSI socket changed its name from {before} to {now}; restart the {controller} together \
         with the driver"
    )]
    Renamed {
        /// See [`super::Driver::CONTROLLER`].
        controller: &'static str,
        /// Name at start-up.
        before: String,
        /// Name now.
        now: String,
    },
    /// A capability came or went on which this process's watches, calls or promises depend.
    #[error("the driver came back {how} the capability {capability}{consequence}")]
    Changed {
        /// "with" or "without", or another wording.
        how: &'static str,
        /// The capability.
        capability: &'static str,
        /// The consequence, after a comma or semicolon.
        consequence: &'static str,
    },
}
