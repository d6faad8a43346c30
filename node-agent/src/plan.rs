//! The decisions of the node agent.
//!
//! Everything here is a function of values. [`state`] decides which operations a volume needs,
//! [`operation`] which of them may start, and [`mount`], [`block`] and [`unmount`] are the scripts
//! of the operations: each is called with the replies so far and returns the next step.

pub mod block;
pub mod expand;
pub mod files;
pub mod growth;
pub mod layout;
pub mod metadata;
pub mod mount;
pub mod node;
pub mod operation;
pub mod ownership;
pub mod reconstruct;
pub mod request;
pub mod resolve;
pub mod script;
pub mod state;
pub mod unmount;
pub mod world;
