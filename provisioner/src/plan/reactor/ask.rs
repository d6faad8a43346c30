//! Steps as requests of the engine: which of them write, and how one that is not sent is answered.

use std::hash::Hash;

use sidecar::controller::request::Ask;

use super::{Answer, Reply, Step};
use crate::plan::claim as claims;
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::request::Request;

impl Ask for Step {
    type Reply = Reply;

    fn write(&self) -> Option<impl Hash> {
        match self {
            Self::Volume(request) => request.write().map(Ok),
            Self::Claim {
                step: claims::Step::Save(unsaved),
                ..
            } => Some(Err((&unsaved.name, &*unsaved.object))),
            Self::Claim { .. } | Self::AskForRoom(_) | Self::Take(..) | Self::Release(_) => None,
        }
    }

    fn is_written(reply: &Reply) -> bool {
        match reply {
            Reply::Volume(reply) => Request::is_written(reply),
            Reply::Other(_, answer) => matches!(answer, Answer::Claim(claims::Answer::Done)),
        }
    }

    fn unsent(self, why: String) -> Reply {
        let answer = match self {
            Self::Volume(request) => return Reply::Volume(request.unsent(why)),
            Self::Claim { ref step, .. } => Answer::Claim(step.unsent(why)),
            Self::AskForRoom(_) => Answer::Room(Err(RpcError::unsent(why))),
            Self::Take(..) => Answer::Taken(Err(ApiError::local(why))),
            Self::Release(_) => Answer::Released(Err(ApiError::local(why))),
        };
        Reply::Other(self, answer)
    }
}
