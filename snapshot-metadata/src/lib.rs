//! `csi-snapshot-metadata`: serves backup clients, over TLS, which blocks of a snapshot are allocated
//! and which have changed since another one.
//!
//! Every replica serves: there is no lease, no cache of objects and no watch. A call is authenticated
//! by TokenReview, authorized by SubjectAccessReview, its names are resolved to the driver's handles,
//! and the driver's stream is checked and passed on as fast as the client reads.
//!
//! # Layout
//!
//! ```text
//! model ◄── plan ◄── work ◄── run ◄── main
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`model`] | API objects, as far as this program reads them |
//! | [`plan`] | decisions: pure functions |
//! | [`work`] | requests, streams, the TLS server |
//! | [`permission`] | the RBAC rules that the program needs |
//! | [`args`] | the command line |
//! | [`run`] | start-up, service, end |

pub mod args;
pub mod model;
pub mod permission;
pub mod plan;
pub mod run;
pub mod work;
