//! What is to be told.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::Topology;

use crate::model::{Claim, Text, Volume};
use crate::plan::in_flight::ClaimKey;
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::request::Object;
use crate::plan::{claim as claims, delete};

/// What is to be told: to the log, to users, to the metrics, or to who produces CSIStorageCapacity
/// objects.
#[derive(Debug)]
pub enum Notice {
    /// The claim is gone or needs no volume.
    Idle(ClaimKey),
    /// The driver called the request for the claim impossible; it is repeated after this.
    Later(ClaimKey, Duration),
    /// The claim got its volume, after this time, in these places if places matter.
    Provisioned(Arc<Claim>, Duration, Vec<Topology>),
    /// An attempt on the claim counts as failed.
    NotProvisioned(Arc<Claim>),
    /// The claim's user is told of a failure.
    ClaimFailed(Arc<Claim>, String),
    /// What there is of this class may have changed although no volume was made.
    RoomDoubted(Text),
    /// Claims have begun to wait for something that is not watched.
    LookedFor,
    /// What was asked and may have made a volume is asked again in vain, for a claim that needs none.
    Owed(Box<Owed>),
    /// The claim's class does not allow this node.
    Elsewhere(ClaimKey),
    /// The claim does not fit on this node.
    NoRoom(ClaimKey),
    /// GetCapacity failed.
    RoomUnknown(ClaimKey, RpcError),
    /// The claim was taken for this node.
    Taken(ClaimKey),
    /// The PersistentVolume of this name is another node's.
    OfAnotherNode(Text),
    /// The finalizers of this data source could not be changed.
    SourceUnchanged(Object, ApiError),
    /// The volume is deleted without its Secret, which could not be read.
    SecretUnread(Text, ApiError),
    /// A volume was deleted, after this time.
    Deleted(Text, Arc<Volume>, Duration),
    /// An attempt on the volume counts as failed.
    NotDeleted(Arc<Volume>),
    /// Users of the volume are told why it is not deleted.
    VolumeStays(Text, Arc<Volume>, delete::Failure),
    /// The claim of this `namespace/name` lost the finalizer that protected it.
    Released(Text),
    /// The places where volumes can be are others.
    SegmentsMoved,
    /// Something is to be asked of the API server for the journal.
    Journal,
    /// Somebody took the claim of this UID out of the journal.
    Forgotten(String),
    /// An entry of the journal cannot be read.
    Broken(String),
    /// So many calls of an earlier process go on.
    Resumed(usize),
}

/// What is owed for a claim that needs no volume any more, and cannot be repeated.
#[derive(Debug)]
pub struct Owed {
    /// The claim.
    pub key: ClaimKey,
    /// Name of the volume that may have been made.
    pub volume: String,
    /// Names of the Leases that say so.
    pub leases: Vec<String>,
    /// Why it cannot be repeated.
    pub failure: claims::Failure,
}

/// Why an attempt is to be retried.
#[derive(Clone, Debug)]
pub enum Failed {
    /// The claim got no volume; whether another node is to be selected.
    Claim(claims::Failure, bool),
    /// This node could not be written on the claim.
    Untaken(ApiError),
    /// The volume was not deleted, or its finalizer not changed.
    Volume(delete::Failure),
    /// Nothing failed: the volume is looked at again. Not at once, because an answer may be ahead of
    /// what is known of attachments.
    Follows,
    /// The finalizer of a cloned claim could not be removed.
    Source(String),
}
