//! Steps as requests of the engine: which of them write, and the replies to those that are not sent.

use std::hash::Hash;

use sidecar::controller::request::Ask;

use super::{Reply, Step};
use crate::plan::outcome::ApiError;
use crate::plan::request::Request;

impl Ask for Step {
    type Reply = Reply;

    fn write(&self) -> Option<impl Hash> {
        match self {
            Self::Ask(request) => request.write(),
            Self::Claim(_) => None,
        }
    }

    fn is_written(reply: &Reply) -> bool {
        matches!(reply, Reply::Ask(reply) if Request::is_written(reply))
    }

    fn unsent(self, why: String) -> Reply {
        match self {
            Self::Ask(request) => Reply::Ask(request.unsent(why)),
            Self::Claim(step) => Reply::Claim(step.refused(ApiError::local(why))),
        }
    }

    fn line(reply: &Reply) -> String {
        match reply {
            Reply::Ask(reply) => Request::line(reply),
            Reply::Claim(reply) => reply.line(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Ask(request) => request.name(),
            Self::Claim(step) => step.name(),
        }
    }

    fn failure(reply: &Reply) -> Option<(&'static str, String)> {
        match reply {
            Reply::Ask(reply) => Request::failure(reply),
            Reply::Claim(reply) => reply.failure(),
        }
    }
}
