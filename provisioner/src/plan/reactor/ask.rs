//! Steps as requests of the engine: which of them write, and how one that is not sent is answered.

use std::hash::Hash;

use sidecar::controller::request::Ask;

use super::{Answer, Step};
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::{claim as claims, delete};

impl Ask for Step {
    type Reply = (Self, Answer);

    fn write(&self) -> Option<impl Hash> {
        match self {
            Self::Volume {
                step: delete::Step::FinalizerAction(body) | delete::Step::Release(body),
                name,
                ..
            } => Some((name, body)),
            Self::Claim {
                step: claims::Step::Save(unsaved),
                ..
            } => Some((&unsaved.name, &*unsaved.object)),
            Self::Claim { .. }
            | Self::Volume { .. }
            | Self::AskForRoom(_)
            | Self::Take(..)
            | Self::Release(_) => None,
        }
    }

    fn is_written((_, answer): &(Self, Answer)) -> bool {
        matches!(
            answer,
            Answer::Claim(claims::Answer::Done) | Answer::Volume(delete::Answer::Written, _)
        )
    }

    fn unsent(self, why: String) -> (Self, Answer) {
        let answer = match &self {
            Self::Claim { step, .. } => Answer::Claim(step.unsent(why)),
            Self::AskForRoom(_) => Answer::Room(Err(RpcError::unsent(why))),
            Self::Take(..) => Answer::Taken(Err(ApiError::local(why))),
            Self::Volume { step, .. } => Answer::Volume(step.unsent(why), None),
            Self::Release(_) => Answer::Released(Err(ApiError::local(why))),
        };
        (self, answer)
    }
}
