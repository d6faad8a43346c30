//! Decisions: pure functions of values.
//!
//! | file | decides |
//! |---|---|
//! | `ranges` | whether the driver's ranges are in order, and how they are cut into messages |
//! | `refusal` | the status and text that a client gets when a call fails |
//! | `request` | whether a request can be served at all |
//! | `resolve` | which snapshot of the driver and which Secret a VolumeSnapshot stands for |

pub mod ranges;
pub mod refusal;
pub mod request;
pub mod resolve;
