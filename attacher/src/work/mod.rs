//! Executors: they carry out the steps that [`plan`](crate::plan) decides, and nothing else.
//!
//! | file | does |
//! |---|---|
//! | `record` | reads objects of the API server into [`model`](crate::model) |
//! | `api` | patches, Secrets, and what their failures mean |
//! | `driver` | the driver behind its socket, through its restarts |
//! | `cluster` | caches, queues and books, and what events put into the queues |
//! | `attachment` | attempts on VolumeAttachments |
//! | `orphan` | what attachments that are gone have left |
//! | `step` | the single step of an attempt |
//! | `volume` | finalizers of PersistentVolumes |
//! | `drift` | comparison with the driver's list |
//! | `complaint` | events on volumes whose attach or detach keeps failing |

pub mod api;
pub mod attachment;
pub mod cluster;
pub mod complaint;
pub mod drift;
pub mod driver;
mod orphan;
pub mod record;
mod step;
pub mod volume;

pub use attachment::Attacher;
