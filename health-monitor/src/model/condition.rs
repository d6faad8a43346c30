//! Health conditions, as claims have them.

use std::sync::Arc;

use super::Text;

/// What is wrong with a volume, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Data is lost.
    DataLoss,
    /// It cannot be used.
    Inaccessible,
    /// It can be used, though not as it should be.
    Degraded,
}

impl Status {
    /// Kubernetes' word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DataLoss => "DataLoss",
            Self::Inaccessible => "Inaccessible",
            Self::Degraded => "Degraded",
        }
    }
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// `status`
    pub status: Status,
    /// `reason`, as the API server accepts it.
    pub reason: Text,
    /// `message`, as the API server accepts it.
    pub message: Text,
}

/// All conditions of a volume, of which no two have the same status and reason; empty for a healthy volume.
pub type Conditions = Arc<[Condition]>;
