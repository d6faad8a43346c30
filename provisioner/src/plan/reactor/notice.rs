//! Notices and failures of the reactor.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::Topology;

use crate::model::{Claim, Text, Volume};
use crate::plan::in_flight::ClaimKey;
use crate::plan::outcome::{ApiError, RpcError};
use crate::plan::request::Object;
use crate::plan::{claim as claims, delete};

/// A log line, an event for users, a change of a metric, or a trigger for the producer of CSIStorageCapacity objects.
#[derive(Debug)]
pub enum Notice {
    /// The claim is gone or needs no volume.
    Idle(ClaimKey),
    /// The driver called the request for the claim infeasible; it is repeated after this time.
    Later(ClaimKey, Duration),
    /// The claim got its volume after this time; the accessible topologies, if topology counts.
    Provisioned(Arc<Claim>, Duration, Vec<Topology>),
    /// An attempt on the claim counts as failed.
    NotProvisioned(Arc<Claim>),
    /// The claim gets an event about a failure.
    ClaimFailed(Arc<Claim>, String),
    /// The capacity for this class may have changed although no volume was made.
    CapacityStale(Text),
    /// Claims have begun to wait for a class that is polled, not watched.
    LookedFor,
    /// An unsettled request was repeated in vain, for a claim that needs no volume any more.
    Unsettled(Box<UnsettledRequest>),
    /// The claim's class does not allow this node.
    Elsewhere(ClaimKey),
    /// This node has not enough capacity for the claim.
    NoCapacity(ClaimKey),
    /// GetCapacity failed.
    CapacityUnknown(ClaimKey, RpcError),
    /// This process has taken the claim for its node.
    Taken(ClaimKey),
    /// Another node's process deletes the PersistentVolume of this name.
    OfAnotherNode(Text),
    /// The finalizers of this data source could not be changed.
    SourceUnchanged(Object, ApiError),
    /// The volume is deleted without its Secret, which could not be read.
    SecretUnread(Text, ApiError),
    /// A volume was deleted, after this time.
    Deleted(Text, Arc<Volume>, Duration),
    /// An attempt on the volume counts as failed.
    NotDeleted(Arc<Volume>),
    /// The volume gets an event about why it is not deleted.
    VolumeStays(Text, Arc<Volume>, delete::Failure),
    /// The claim of this `namespace/name` lost the finalizer that protected it.
    Released(Text),
    /// The topology segments of the cluster have changed.
    SegmentsMoved,
    /// The journal may have a request to the API server.
    Journal,
    /// Somebody removed the claim of this UID from the journal.
    Forgotten(String),
    /// An entry of the journal cannot be read: the error.
    Broken(String),
    /// Number of calls of an earlier process that this process continues.
    Resumed(usize),
}

/// An unsettled request of a claim that needs no volume any more, and that cannot be repeated.
#[derive(Debug)]
pub struct UnsettledRequest {
    /// The claim.
    pub key: ClaimKey,
    /// Name of the volume that may have been made.
    pub volume: String,
    /// Names of the Leases with the request.
    pub leases: Vec<String>,
    /// Error of the repetition.
    pub failure: claims::Failure,
}

/// Why an attempt is retried.
#[derive(Clone, Debug)]
pub enum Failed {
    /// The claim got no volume; `true` if another node has to be selected.
    Claim(claims::Failure, bool),
    /// The claim could not be annotated with this node.
    NotTaken(ApiError),
    /// The volume was not deleted, or its finalizer could not be changed.
    Volume(delete::Failure),
    /// Nothing failed: the volume has to be looked at again. Not at once, because the reply of a write may be ahead of
    /// the VolumeAttachments in the cache.
    Follows,
    /// The finalizer of a cloned claim could not be removed.
    Source(String),
}
