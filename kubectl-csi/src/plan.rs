//! Decides which objects to read next, and what to answer in the end: pure functions of the objects
//! read so far.
//!
//! | file | holds |
//! |---|---|
//! | `seen` | all objects read so far by kind, and which requests failed |
//! | `store` | the objects of a kind, and their indexes |
//! | `index` | the keys of each kind |
//! | `lookup` | selectors of objects, and the result of a lookup |
//! | `walk` | the walk from a subject to its causes: lookups, stops, findings |
//! | `verdict` | the answer: findings, remedies, certainty, state |
//! | `words` | formats of times and lists, gRPC codes in texts |
//! | `causes` | every cause, in one line |
//! | `pod` | a pod: scheduled, its volumes, running |
//! | `schedule` | a pod that is not scheduled |
//! | `claim` | a claim: gone, lost, pending, bound |
//! | `reach` | volumes that no node with capacity can reach |
//! | `class` | the class of a claim |
//! | `provision` | a claim that its driver has not provisioned yet |
//! | `refusal` | the driver's errors in csi-provisioner's events |
//! | `journal` | calls without a final response, in csi-provisioner's journal |
//! | `source` | a claim with a snapshot, a claim or something else as data source |
//! | `controller` | which sidecar leads for a driver, and whether it runs |
//! | `workload` | the workloads that run a program, and why their pods do not |
//! | `volume` | a volume: gone, bound to another claim, released |
//! | `answerers` | the pods whose controllers are asked |
//! | `answers` | the questions to controllers, and the answers that count |
//! | `attach` | a volume that is not attached to a node yet, or not detached |
//! | `held` | a volume that is attached to another node |
//! | `node` | the driver's pod on a node, and its registration |
//! | `mount` | kubelet's events about mounts |
//! | `delete` | claims and volumes whose deletion does not finish |
//! | `change` | claims whose expansion or attribute change does not finish |
//! | `snapshot` | snapshots |
//! | `content` | their contents |
//! | `group` | group snapshots |
//! | `driver` | a driver as a whole |
//! | `overview` | everything that is stuck, by cause |
//! | `stock` | the volumes and snapshots that a driver reports |
//! | `difference` | the findings of an audit, in words |
//! | `named` | which volumes and snapshots objects name |
//! | `snapshot_handles` | which snapshots contents and group contents name |
//! | `volume_users` | which volumes attachments, nodes and pods use |
//! | `spelling` | handles that may be two spellings of one |
//! | `side` | compares one list of a driver with the cluster |
//! | `comparison` | compares volumes and snapshots with the cluster |
//! | `published` | compares the nodes that a driver reports for its volumes with the VolumeAttachments |
//! | `audit` | compares a driver's storage with the cluster |

mod answerers;
mod answers;
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
mod lookup;
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
mod snapshot_handles;
mod source;
mod spelling;
mod stock;
mod store;
mod verdict;
mod volume;
mod volume_users;
mod walk;
mod words;
mod workload;

use jiff::Timestamp;

use crate::model::{Kind, Ref};

pub use answerers::{Answerer, Answerers, answerers};
pub use answers::{Answered, answered, questions};
pub use audit::{Audit, Compare, compare};
pub use causes::{CAUSES, title};
pub use difference::{Difference, DifferenceKind, Note, NoteKind};
pub use overview::{Found, Overview, Scope, survey};
pub use seen::{Answer, Read, Record, Seen, Store, Want};
pub use stock::{Handles, Stock, Storage, Stored, handles};
pub use verdict::{Certainty, Finding, Next, PathStep, Remedy, State, Verdict, Who};
pub use words::{listed, nearest, span};

use walk::{Stop, Walk};

/// The subject, and how many causes to report.
#[derive(Clone, Debug)]
pub struct Question {
    pub subject: Ref,
    /// Reports all causes, not only the first.
    pub all: bool,
}

/// The objects to read next, or the answer.
#[must_use]
pub fn decide(seen: &Seen, question: &Question, now: Timestamp) -> Next {
    let mut walk = Walk::new(seen, now, question.all);
    match follow(&mut walk, &question.subject) {
        Err(Stop::Look) => Next::Look(walk.wants.into_iter().collect()),
        Ok(()) | Err(Stop::CauseFound) => Next::Say(Box::new(walk.verdict(&question.subject))),
    }
}

fn follow(walk: &mut Walk<'_>, subject: &Ref) -> Result<(), Stop> {
    match subject.kind {
        Kind::Pod => pod::pod(walk, subject),
        Kind::Claim => claim::claim(walk, subject, 0, None),
        Kind::Volume => volume::volume(walk, subject, 0),
        Kind::Attachment => attach::attachment(walk, subject),
        Kind::Snapshot => snapshot::snapshot(walk, subject, 0),
        Kind::Content => content::content(walk, subject, 0),
        Kind::GroupSnapshot => group::group(walk, subject),
        Kind::Node => node::subject(walk, subject),
        Kind::Driver => driver::subject(walk, subject),
        // Not subjects: the command line refuses them.
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
            walk.absent = true;
            Ok(())
        }
    }
}

/// Whether a deletion has taken longer than deletions take.
fn delete_is_late(meta: &crate::model::Meta, now: Timestamp) -> bool {
    let since = meta.deletion_timestamp.0;
    since.is_some_and(|since| now.duration_since(since).as_secs() >= walk::FRESH)
}
