//! Causes, differences and outputs from worlds of objects, and the built program between a model API server and a model
//! driver.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what goes wrong here is a failed test"
)]

mod answers;
mod audit;
mod causes;
mod differences;
#[path = "../worlds/objects.rs"]
mod objects;
mod orphans;
mod pages;
mod permissions;
mod process;
mod schema;
mod without_handle;
#[path = "../worlds/world.rs"]
mod world;
