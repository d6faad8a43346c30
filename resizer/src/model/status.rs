//! The progress of an expansion and of a modification in a claim's status.
//!
//! Decisions move through these states.

use super::Text;

/// `status.allocatedResourceStatuses.storage`: the progress of an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResizeStatus {
    /// A call may be or have been under way; its outcome is unknown.
    ControllerInProgress,
    /// The driver called the expansion infeasible.
    ControllerInfeasible,
    /// The driver has finished, kubelet has not started.
    NodePending,
    /// kubelet is expanding the file system.
    NodeInProgress,
    /// The driver called the expansion infeasible on the node.
    NodeInfeasible,
    /// A status of a later Kubernetes version.
    Unknown,
}

impl ResizeStatus {
    /// Parses the API's spelling.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "ControllerResizeInProgress" => Self::ControllerInProgress,
            "ControllerResizeInfeasible" => Self::ControllerInfeasible,
            "NodeResizePending" => Self::NodePending,
            "NodeResizeInProgress" => Self::NodeInProgress,
            "NodeResizeInfeasible" => Self::NodeInfeasible,
            _ => Self::Unknown,
        }
    }

    /// The API's spelling; empty for an unknown status, which is never written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ControllerInProgress => "ControllerResizeInProgress",
            Self::ControllerInfeasible => "ControllerResizeInfeasible",
            Self::NodePending => "NodeResizePending",
            Self::NodeInProgress => "NodeResizeInProgress",
            Self::NodeInfeasible => "NodeResizeInfeasible",
            Self::Unknown => "",
        }
    }
}

/// `status.modifyVolumeStatus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modify {
    /// `status`.
    pub phase: ModifyPhase,
    /// `targetVolumeAttributesClassName`, empty where unset.
    pub target: Text,
}

/// `status.modifyVolumeStatus.status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModifyPhase {
    /// The class does not exist.
    Pending,
    /// A call may be or have been under way.
    InProgress,
    /// The driver called the modification infeasible.
    Infeasible,
    /// A phase of a later Kubernetes version.
    Unknown,
}

impl ModifyPhase {
    /// Parses the API's spelling.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "InProgress" => Self::InProgress,
            "Infeasible" => Self::Infeasible,
            _ => Self::Unknown,
        }
    }

    /// The API's spelling; empty for an unknown phase, which is never written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::InProgress => "InProgress",
            Self::Infeasible => "Infeasible",
            Self::Unknown => "",
        }
    }
}

/// One of `status.conditions` of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// `type`.
    pub kind: Text,
    /// `status`: `True`, `False` or `Unknown`.
    pub status: Text,
    /// `reason`, empty where unset.
    pub reason: Text,
    /// `message`, empty where unset.
    pub message: Text,
    /// `lastTransitionTime`, as written.
    pub changed: Option<Text>,
    /// `lastProbeTime`, as written.
    pub probed: Option<Text>,
}

impl Condition {
    /// Whether its status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        *self.status == *"True"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_they_are_written() {
        use ResizeStatus::{
            ControllerInProgress, ControllerInfeasible, NodeInProgress, NodeInfeasible, NodePending,
        };
        for status in [
            ControllerInProgress,
            ControllerInfeasible,
            NodePending,
            NodeInProgress,
            NodeInfeasible,
        ] {
            assert_eq!(ResizeStatus::parse(status.name()), status);
        }
        assert_eq!(ResizeStatus::parse("Later"), ResizeStatus::Unknown);
        for phase in [
            ModifyPhase::Pending,
            ModifyPhase::InProgress,
            ModifyPhase::Infeasible,
        ] {
            assert_eq!(ModifyPhase::parse(phase.name()), phase);
        }
        assert_eq!(ModifyPhase::parse("Later"), ModifyPhase::Unknown);
    }
}
