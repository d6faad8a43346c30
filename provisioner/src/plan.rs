//! Decisions: pure functions from what was observed to the one next step.
//!
//! Every acceptance row and every crash point can be run in microseconds. Nothing in here awaits,
//! reads a clock, draws a random number or knows a client; such values come in as arguments.
//!
//! | file | decides |
//! |---|---|
//! | `attached` | which volumes VolumeAttachments name |
//! | `capacity` | the free capacity per class and topology segment, for the scheduler |
//! | `claim` | the next step for a claim that needs a volume |
//! | `delete` | the script of a volume: upkeep of its finalizer, deletion |
//! | `edit` | changes of claims and snapshots |
//! | `driver` | what the driver can do, and which changes of it end the process |
//! | `event` | which changes of objects are work |
//! | `identity` | whether a PersistentVolume is that of a volume |
//! | `informers` | what decisions may look at |
//! | `journal` | what is written down before the driver is asked |
//! | `lifecycle` | how far claims and volumes have come, for figures of service levels |
//! | `class_poller` | when to look for what is not watched |
//! | `in_flight` | what the process remembers beyond its caches |
//! | `migrated` | classes and volumes of the in-tree plugin that the driver replaced |
//! | `outcome` | how requests and calls fail, and what would cure it |
//! | `ownership` | which claims the provisioner of one node takes |
//! | `protection` | when the finalizers on data sources go |
//! | `pv` | the PersistentVolume for a volume the driver made |
//! | `reach` | whether a volume can be reached from a node |
//! | `reactor` | the provisioner as one object |
//! | `request`, `parameters` | what CreateVolume is asked |
//! | `secret` | which Secrets a class names |
//! | `select` | whether a claim is this driver's, and now |
//! | `settings` | what the command line says about decisions |
//! | `source` | snapshots and clones |
//! | `topology` | in which segments of the cluster a volume may be |
//! | `fairness` | whose turn it is when workers are scarce |
//! | `view` | what that decision looks at |

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
pub mod lifecycle;
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
