//! Steps that are not taken, since their attempt goes in circles.

use serde_json::Value;

use super::Step;
use crate::model::Text;
use crate::plan::attachment::Answer;
use crate::plan::outcome::{ApiError, RpcError};

impl Step {
    /// What it writes, and to which object.
    pub(super) fn write(&self) -> Option<(&'static str, &Text, &Value)> {
        match self {
            Self::PatchAttachment(of, body) => Some(("attachment", &of.name, body)),
            Self::PatchStatus(of, body) => Some(("status", &of.name, body)),
            Self::PatchVolume(name, body) => Some(("volume", name, body)),
            Self::Read(_)
            | Self::ReadVolume(_)
            | Self::LoadSecret(_)
            | Self::Publish(..)
            | Self::Unpublish(..) => None,
        }
    }

    /// The answer to it if it is not taken.
    pub(super) fn unsent(&self, why: String) -> Answer {
        if matches!(self, Self::Publish(..) | Self::Unpublish(..)) {
            Answer::Unreachable(RpcError::unsent(why))
        } else {
            Answer::Refused(ApiError::local(why))
        }
    }
}
