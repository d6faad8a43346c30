//! Events on claims and volumes.
//!
//! An event is a hint: recording never fails and never waits.

use sidecar::controller::Seat;
use sidecar::kube::events::{Recorder, Reference, Severity, Source};

use crate::model::{Claim, Text, Volume};
use crate::plan::delete::Failure;

/// Recorders of events.
#[derive(Clone, Debug)]
pub struct Events {
    /// With the component of upstream's library.
    ours: Recorder,
    /// With the component of upstream's sidecar itself.
    sidecar: Recorder,
}

impl Events {
    /// Creates the recorders; they write from now on.
    pub fn new(seat: &Seat, driver: &str, host: &str, process: &str) -> Self {
        let recorder = |component: String| {
            seat.record_events(Source {
                component,
                host: String::new(),
            })
        };
        Self {
            ours: recorder(format!("{driver}_{host}_{process}")),
            sidecar: recorder("external-provisioner".to_owned()),
        }
    }

    /// Records an event on a claim.
    pub fn claim(&self, claim: &Claim, severity: Severity, reason: &'static str, message: &str) {
        self.ours
            .record(&reference(claim), severity, reason, message);
    }

    /// Records that a volume populator provisions the volume of the claim.
    pub fn left_to_populator(&self, claim: &Claim, message: &str) {
        let about = reference(claim);
        self.sidecar
            .record(&about, Severity::Normal, "Provisioning", message);
    }

    /// Records that a volume could not be deleted, or not yet.
    pub fn volume_stays(&self, name: &Text, volume: &Volume, failure: &Failure) {
        let (uid, version) = match volume {
            Volume::Deletable(detail) => (detail.uid.to_string(), detail.version.to_string()),
            Volume::Finalizer(due) => (due.uid.to_string(), String::new()),
            Volume::NameOnly => (String::new(), String::new()),
        };
        let about = Reference {
            api_version: "v1".into(),
            kind: "PersistentVolume".into(),
            name: name.to_string(),
            uid,
            resource_version: version,
            ..Reference::default()
        };
        let (severity, reason) = match failure.is_wait() {
            true => (Severity::Normal, "VolumeDelete"),
            false => (Severity::Warning, "VolumeFailedDelete"),
        };
        self.ours
            .record(&about, severity, reason, failure.to_string());
    }
}

fn reference(claim: &Claim) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "PersistentVolumeClaim".into(),
        namespace: claim.namespace.to_string(),
        name: claim.name.to_string(),
        uid: claim.uid.to_string(),
        resource_version: claim.version.to_string(),
    }
}
