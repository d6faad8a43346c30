//! What a controller cannot go on with when the driver comes back.

/// The driver came back as something this process cannot go on with: it ends with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncompatibleDriver {
    /// Another driver answers on the socket.
    #[error(
        "the driver on the CSI socket changed its name from {before} to {now}; restart the {controller} together \
         with the driver"
    )]
    Renamed {
        /// As [`super::Driver::CONTROLLER`].
        controller: &'static str,
        /// Name at start-up.
        before: String,
        /// Name now.
        now: String,
    },
    /// A capability came or went on which it depends what this process watches, calls or has promised.
    #[error("the driver came back {how} the capability {capability}{consequence}")]
    Changed {
        /// "with" or "without" it, or how else.
        how: &'static str,
        /// The capability.
        capability: &'static str,
        /// What follows from that, after a comma or semicolon.
        consequence: &'static str,
    },
}
