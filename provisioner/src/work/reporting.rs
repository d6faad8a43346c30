//! Turns notices into log lines, events, metrics, and triggers for the producer of CSIStorageCapacity objects.

use std::time::Duration;

use csi_proto::csi::Topology;
use sidecar::controller::request::Object as _;
use sidecar::kube::events::Severity;
use sidecar::verbose;

use super::capacity::Capacity;
use super::executor::Executor;
use super::journal::Keeper;
use crate::keys::CLONE_FINALIZER;
use crate::model::{Claim, Text, Volume};
use crate::plan::journal::INTENT;
use crate::plan::reactor::{Failed, Key, Notice, UnsettledRequest};

impl Executor {
    pub(super) fn report(&self, notice: Notice) {
        match notice {
            Notice::Idle(key) => {
                verbose!(
                    4,
                    claim = &*key.name,
                    "The claim is gone or needs no volume"
                );
            }
            Notice::Later(key, wait) => {
                verbose!(2, claim = &*key.name, retry_after = ?wait, "Delaying the next CreateVolume call");
            }
            Notice::Provisioned(claim, took, topologies) => {
                self.provisioned(&claim, took, &topologies)
            }
            Notice::NotProvisioned(claim) => {
                let (class, source) = labels(&claim);
                self.metrics.not_provisioned(class, source);
            }
            Notice::ClaimFailed(claim, text) => {
                let reason = "ProvisioningFailed";
                self.events.claim(&claim, Severity::Warning, reason, &text);
            }
            Notice::CapacityStale(class) => self.to_producer(|capacity| capacity.failed(&class)),
            Notice::LookedFor => self.looked_for.notify_one(),
            Notice::Unsettled(unsettled) => self.warn_about_unsettled(&unsettled),
            Notice::Elsewhere(key) => {
                verbose!(4, claim = &*key.name, "The class does not allow this node");
            }
            Notice::NoCapacity(key) => {
                verbose!(2, claim = &*key.name, "Not enough room on this node");
            }
            Notice::CapacityUnknown(key, error) => {
                let claim = &*key.name;
                verbose!(2, claim, err = %error, "GetCapacity failed");
            }
            Notice::Taken(key) => {
                let node = self.settings.node.as_ref().map(|own| &*own.name);
                tracing::info!(claim = &*key.name, node, "Took the claim for this node");
            }
            Notice::OfAnotherNode(volume) => {
                verbose!(3, volume = &*volume, "The volume belongs to another node");
            }
            Notice::SourceUnchanged(source, error) => {
                let (namespace, name) = source.key().split_once('/').unwrap_or_default();
                verbose!(2, namespace, name, err = %error, "Could not change the finalizers of a data source");
            }
            Notice::SecretUnread(volume, error) => {
                let volume = &*volume;
                tracing::error!(volume, err = %error, "Failed to get the secret, deleting without");
            }
            Notice::Deleted(name, volume, took) => self.deleted(&name, &volume, took),
            Notice::NotDeleted(volume) => self.metrics.not_deleted(label(&volume)),
            Notice::VolumeStays(name, volume, failure) => {
                self.events.volume_stays(&name, &volume, &failure);
            }
            Notice::Released(name) => {
                let claim = &*name;
                tracing::info!(claim, finalizer = CLONE_FINALIZER, "Removed the finalizer");
            }
            Notice::SegmentsMoved => self.to_producer(|capacity| capacity.segments_changed()),
            Notice::Journal => self.journal.iter().for_each(Keeper::look),
            Notice::Forgotten(uid) => forgotten(&uid),
            Notice::Broken(what) => broken(&what),
            Notice::Resumed(resumed) => {
                tracing::info!(resumed, "Resuming calls of an earlier process");
            }
        }
    }

    fn to_producer(&self, report: impl FnOnce(&Capacity)) {
        if let Some(capacity) = self.capacity.get() {
            report(capacity);
        }
    }

    fn provisioned(&self, claim: &Claim, took: Duration, topologies: &[Topology]) {
        let (class, source) = labels(claim);
        self.metrics.provisioned(class, source, took);
        // Capacity has decreased where the volume was made.
        self.to_producer(|capacity| capacity.provisioned(claim.class_name(), topologies));
        tracing::info!(claim = &*claim.key(), "Volume provisioned");
    }

    fn deleted(&self, name: &Text, volume: &Volume, took: Duration) {
        self.metrics.deleted(label(volume), took);
        tracing::info!(volume = &**name, "Volume deleted");
        // Capacity has increased where the volume was.
        if let Volume::Deletable(detail) = volume {
            self.to_producer(|capacity| capacity.deleted(detail.affinity.as_deref()));
        }
    }

    /// Logs what an administrator can do about an unsettled request of a claim that needs no volume any more.
    fn warn_about_unsettled(&self, unsettled: &UnsettledRequest) {
        let namespace = self.journal.as_ref().map(Keeper::namespace);
        tracing::warn!(
            claim = &*unsettled.key.name,
            volume = unsettled.volume,
            namespace,
            lease = unsettled.leases.join(","),
            annotation = format!("{INTENT}{}", unsettled.key.uid),
            err = %unsettled.failure,
            "The outcome of CreateVolume is unknown, and the claim no longer needs a volume; retrying. If no such volume exists, remove the annotation from the journal's Lease"
        );
    }

    pub(super) fn log_failure(key: &Key, failed: &Failed, wait: Duration) {
        match (key, failed) {
            (Key::Claim(key), Failed::Claim(failure, reschedules)) => {
                let outcome = match reschedules {
                    true => "Asking the scheduler to select another node",
                    false => "Provisioning failed",
                };
                let claim = &*key.name;
                tracing::error!(claim, retry_after = ?wait, err = %failure, "{outcome}");
            }
            (Key::Claim(key), Failed::NotTaken(error)) => {
                let claim = &*key.name;
                tracing::error!(claim, retry_after = ?wait, err = %error, "Could not take the claim");
            }
            (Key::Volume(name), Failed::Volume(failure)) => {
                let volume = &**name;
                if failure.is_wait() {
                    verbose!(4, volume, retry_after = ?wait, err = %failure, "Volume deletion waits");
                } else {
                    tracing::error!(volume, retry_after = ?wait, err = %failure, "Volume deletion failed");
                }
            }
            (Key::Source(name), Failed::Source(text)) => verbose!(
                2,
                claim = &**name,
                retry_after = ?wait,
                err = text,
                "Cannot remove the finalizer of a cloned claim"
            ),
            // Nothing failed, or the failure belongs to another kind of key.
            (Key::Claim(_) | Key::Volume(_) | Key::Source(_), _) => {}
        }
    }
}

fn forgotten(claim_uid: &str) {
    tracing::warn!(
        claim_uid,
        "This claim's entry was removed from the provisioning journal, its CreateVolume call is no longer tracked"
    );
}

fn broken(what: &str) {
    tracing::error!(
        what,
        "Keeping an entry of the provisioning journal without acting on it: check whether its volume exists and whether anybody uses it, then remove the annotation"
    );
}

/// Labels of the metrics: the class from the field alone, and the kind of the data source.
fn labels(claim: &Claim) -> (&str, &str) {
    let class = claim.class.as_deref().unwrap_or_default();
    (class, claim.source_kind())
}

/// Label of the metrics: the class.
fn label(volume: &Volume) -> &str {
    match volume {
        Volume::Deletable(detail) => &detail.class_field,
        Volume::NameOnly | Volume::Finalizer(..) => "",
    }
}
