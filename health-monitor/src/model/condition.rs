//! Health conditions, in the form in which claims store them.

use std::sync::Arc;

use super::Text;

/// The severity of a volume's fault, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Data is lost.
    DataLoss,
    /// The volume cannot be used.
    Inaccessible,
    /// The volume can be used, but not at full function.
    Degraded,
}

impl Status {
    /// The status as Kubernetes spells it.
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
    /// Status and reason, which identify the condition among those of its volume.
    #[must_use]
    pub fn pair(&self) -> (&str, &str) {
        (self.status.name(), &self.reason)
    }
}

/// Whether two lists have the same pairs of status and reason. Messages and order do not matter; otherwise each change
/// of a message would cause a write.
pub fn are_same<'a>(
    mut one: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
    other: impl ExactSizeIterator<Item = (&'a str, &'a str)> + Clone,
) -> bool {
    // No list contains a pair twice.
    one.len() == other.len() && one.all(|pair| other.clone().any(|other| other == pair))
}

/// All conditions of a volume, no two with the same status and reason; empty for a healthy volume.
pub type Conditions = Arc<[Condition]>;
