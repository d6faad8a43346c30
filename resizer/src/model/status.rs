//! What a claim's status says about expansion and modification.
//!
//! These are the states that decisions move through.

use super::Text;

/// `status.allocatedResourceStatuses.storage`: how far an expansion has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResizeStatus {
    /// The driver is or was being asked, with what outcome is not known.
    ControllerInProgress,
    /// The driver said that it is impossible.
    ControllerInfeasible,
    /// The driver is done, kubelet has not begun.
    NodePending,
    /// kubelet is expanding the file system.
    NodeInProgress,
    /// kubelet was told that it is impossible.
    NodeInfeasible,
    /// A state of a later Kubernetes.
    Unknown,
}

impl ResizeStatus {
    /// The status that the API spells `text`.
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

    /// How the API spells it; empty for an unknown one, which is never written.
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
    /// The class is not there.
    Pending,
    /// The driver is or was being asked.
    InProgress,
    /// The driver said that it is impossible.
    Infeasible,
    /// A state of a later Kubernetes.
    Unknown,
}

impl ModifyPhase {
    /// The phase that the API spells `text`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "InProgress" => Self::InProgress,
            "Infeasible" => Self::Infeasible,
            _ => Self::Unknown,
        }
    }

    /// How the API spells it; empty for an unknown one, which is never written.
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
    /// Whether it holds.
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
