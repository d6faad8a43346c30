//! What to look at next, and what to say in the end: pure functions of what was seen.
//!
//! | file | holds |
//! |---|---|
//! | `seen` | objects by kind, and what was refused |
//! | `store` | the objects of a kind, and their indexes |
//! | `index` | the keys of each kind |
//! | `which` | which objects are looked at |
//! | `way` | looking, being stopped, noting |
//! | `verdict` | findings, remedies, certainty, state |
//! | `words` | spans, lists, codes in texts |
//! | `causes` | every cause in a line |
//! | `pod` | a pod: scheduled, its volumes, running |
//! | `schedule` | a pod that has no node |
//! | `claim` | a claim: gone, lost, pending, bound |
//! | `reach` | volumes that cannot be reached from where there is room |
//! | `class` | the class of a claim |
//! | `provision` | a claim that gets no volume from its driver |
//! | `refusal` | what the driver answers to that |
//! | `journal` | calls without a final answer |
//! | `source` | a claim that is filled from a snapshot, a claim or something else |
//! | `controller` | who works for a driver, and whether it does |
//! | `workload` | what runs a program, and why it does not |
//! | `volume` | a volume: gone, another's, released |
//! | `attach` | a volume that does not get to a node, or does not leave one |
//! | `held` | a volume that another node has |
//! | `node` | the driver's part on a node |
//! | `mount` | kubelet's words |
//! | `delete` | what does not go away |
//! | `change` | what does not grow or change |
//! | `snapshot` | snapshots |
//! | `content` | their contents |
//! | `group` | group snapshots |
//! | `driver` | a driver as a whole |
//! | `overview` | everything that is stuck |
//! | `stock` | what a driver says that it has |
//! | `difference` | what an audit can find, in words |
//! | `named` | which volumes and snapshots objects name |
//! | `taken` | which snapshots contents and groups name |
//! | `used` | which volumes attachments, nodes and pods use |
//! | `spelling` | handles that may be one in two spellings |
//! | `side` | one list of a driver beside that |
//! | `comparison` | both lists beside that |
//! | `published` | where it has volumes attached, beside where they are to be |
//! | `audit` | what a driver has in its storage beside what the cluster has |

mod attach;
mod audit;
mod causes;
mod change;
mod claim;
mod class;
mod comparison;
mod content;
mod controller;
mod delete;
mod difference;
mod driver;
mod group;
mod held;
mod index;
mod journal;
mod mount;
mod named;
mod node;
mod overview;
mod pod;
mod provision;
mod published;
mod reach;
mod refusal;
mod schedule;
mod seen;
mod side;
mod snapshot;
mod source;
mod spelling;
mod stock;
mod store;
mod taken;
mod used;
mod verdict;
mod volume;
mod way;
mod which;
mod words;
mod workload;

use jiff::Timestamp;

use crate::model::{Kind, Ref};

pub use audit::{Audit, Compare, compare};
pub use causes::{CAUSES, title};
pub use difference::{Difference, Note, What, Worth};
pub use overview::{Found, Overview, Scope, survey};
pub use seen::{Answer, Read, Record, Seen, Store, Want};
pub use stock::{Handles, Stock, Storage, Stored, handles};
pub use verdict::{Certainty, Finding, Next, Remedy, State, Station, Verdict, Who};
pub use words::{listed, nearest, span};

use way::{Stop, Way};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    pub subject: Ref,
    /// All causes, not only the first.
    pub all: bool,
}

/// The next step towards an answer.
#[must_use]
pub fn decide(seen: &Seen, question: &Question, now: Timestamp) -> Next {
    let mut way = Way::new(seen, now, question.all);
    match walk(&mut way, &question.subject) {
        Err(Stop::Look) => Next::Look(way.wants.into_iter().collect()),
        Ok(()) | Err(Stop::Told) => Next::Say(Box::new(way.verdict(&question.subject))),
    }
}

fn walk(way: &mut Way<'_>, subject: &Ref) -> Result<(), Stop> {
    match subject.kind {
        Kind::Pod => pod::pod(way, subject),
        Kind::Claim => claim::claim(way, subject, 0, None),
        Kind::Volume => volume::volume(way, subject, 0),
        Kind::Attachment => attach::attachment(way, subject),
        Kind::Snapshot => snapshot::snapshot(way, subject, 0),
        Kind::Content => content::content(way, subject, 0),
        Kind::GroupSnapshot => group::group(way, subject),
        Kind::Node => node::subject(way, subject),
        Kind::Driver => driver::subject(way, subject),
        // No subject: the command line refuses them.
        Kind::Class
        | Kind::CsiNode
        | Kind::Capacity
        | Kind::AttributesClass
        | Kind::Lease
        | Kind::Event
        | Kind::DaemonSet
        | Kind::Deployment
        | Kind::StatefulSet
        | Kind::Quota
        | Kind::ConfigMap
        | Kind::Secret
        | Kind::SnapshotClass
        | Kind::GroupContent
        | Kind::GroupClass
        | Kind::Populator
        | Kind::Crd => {
            way.absent = true;
            Ok(())
        }
    }
}

/// Whether an object has been on its way out for longer than that takes.
fn delete_is_late(meta: &crate::model::Meta, now: Timestamp) -> bool {
    let since = meta.deletion_timestamp.0;
    since.is_some_and(|since| now.duration_since(since).as_secs() >= way::FRESH)
}
