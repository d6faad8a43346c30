//! The API's objects, as people see them: `kubectl explain` shows the comments.

#![allow(
    unreachable_pub,
    reason = "the derive copies each type into a function"
)]

pub mod beta;
pub mod field;
pub mod group;
pub mod snapshot;
