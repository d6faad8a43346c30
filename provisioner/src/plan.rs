//! Decisions: pure functions from the observed state to the next step.
//!
//! Every acceptance row and every crash point can be run in microseconds. Nothing in here awaits,
//! reads a clock, draws a random number or knows a client; such values come in as arguments.
//!
//! | file | decides |
//! |---|---|
//! | `attached` | which volumes VolumeAttachments name |
//! | `capacity` | which CSIStorageCapacity objects there should be |
//! | `claim` | the next step for a claim that needs a volume |
//! | `delete` | the next step for a volume: adding or removing its finalizer, deletion |
//! | `edit` | changes of claims and snapshots |
//! | `driver` | which capabilities the driver has, and which changes of them end the process |
//! | `event` | which changes of objects requeue a claim or volume |
//! | `identity` | whether a PersistentVolume refers to a volume that the driver returned |
//! | `informers` | the caches that decisions read |
//! | `journal` | the record of CreateVolume requests, written before the driver gets them |
//! | `class_poller` | when to read VolumeAttributesClasses, which are not watched |
//! | `in_flight` | state that the process keeps beyond its caches |
//! | `migrated` | classes and volumes of the in-tree plugin that the driver replaced |
//! | `outcome` | how requests and calls fail, and which objects would cure a failure |
//! | `ownership` | which claims the provisioner of one node takes |
//! | `protection` | when finalizers on data sources are removed |
//! | `pv` | the PersistentVolume for a volume that the driver made |
//! | `reach` | whether a volume can be reached from a node |
//! | `reactor` | the provisioner as one object: changes and replies in, requests out |
//! | `request`, `parameters` | the CreateVolume request |
//! | `secret` | which Secrets a class names |
//! | `select` | whether a claim is this driver's, and ready to be provisioned |
//! | `settings` | flags and environment that decisions depend on |
//! | `source` | snapshots and clones |
//! | `topology` | in which topology segments a volume may be |
//! | `fairness` | the order of claims and volumes when workers are scarce |
//! | `view` | the input of a decision on a claim |

pub mod attached;
pub mod capacity;
pub mod claim;
pub mod class_poller;
pub mod delete;
pub mod driver;
pub mod edit;
pub mod event;
pub mod fairness;
pub mod identity;
pub mod in_flight;
pub mod informers;
pub mod journal;
pub mod migrated;
pub mod outcome;
pub mod ownership;
pub mod parameters;
pub mod protection;
pub mod pv;
pub mod reach;
pub mod reactor;
pub mod request;
pub mod secret;
pub mod select;
pub mod settings;
pub mod source;
pub mod topology;
pub mod view;

pub use driver::Driver;
pub use informers::Informers;
pub use reactor::Provisioner;
pub use settings::Settings;
