//! Health conditions, as claims have them.

use std::sync::Arc;

use super::Text;

/// The kind of fault of a volume, the worst first.
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

impl Condition {
    /// Status and reason, which tell it from the volume's other conditions.
    #[must_use]
    pub fn pair(&self) -> (&str, &str) {
        (self.status.name(), &self.reason)
    }
}

/// Whether two lists have the same pairs of status and reason. Messages and order do not count: every change of one
/// would be a write.
pub fn are_same<'a>(
    mut one: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
    other: impl ExactSizeIterator<Item = (&'a str, &'a str)> + Clone,
) -> bool {
    // No two of a list are alike.
    one.len() == other.len() && one.all(|pair| other.clone().any(|other| other == pair))
}

/// All conditions of a volume, of which no two have the same status and reason; empty for a healthy volume.
pub type Conditions = Arc<[Condition]>;
