//! Executors of what [`plan`](crate::plan) decides, and how API objects are read.
//!
//! Separate from the decisions, because everything here waits for somebody else.
//!
//! | file | contents |
//! |---|---|
//! | `record` | records of [`model`](crate::model) out of the API server's JSON |
//! | `api` | kinds of objects, and what failures of requests mean |
//! | `discovery` | kinds that an API server may lack |
//! | `driver` | the driver behind its socket, through its restarts |
//! | `attributes` | VolumeAttributesClasses that claims wait for |
//! | `cluster` | caches, queues and books, and what events put into the queues; in `attached`, which volumes VolumeAttachments name |
//! | `provisioner` | the parts that executors share |
//! | `claim` | attempts for claims |
//! | `step` | the single step of such an attempt |
//! | `journal` | the provisioning journal at the API server |
//! | `volume` | attempts on PersistentVolumes |
//! | `protection` | finalizers of data sources |
//! | `news` | events |
//! | `metrics` | what is counted |
//! | `capacity` | CSIStorageCapacity objects |
//! | `ownership` | node deployment: claims that nobody has taken yet |

pub mod api;
mod attributes;
pub mod capacity;
pub mod claim;
pub mod cluster;
pub mod discovery;
pub mod driver;
pub mod journal;
pub mod metrics;
pub mod news;
mod ownership;
pub mod protection;
pub mod provisioner;
pub mod record;
mod step;
pub mod volume;

pub use provisioner::Provisioner;
