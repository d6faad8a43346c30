//! The API's objects. `kubectl explain` shows these comments to users.

#![allow(
    unreachable_pub,
    reason = "the derive copies each type into a function"
)]

pub mod beta;
pub mod field;
pub mod group;
pub mod snapshot;
