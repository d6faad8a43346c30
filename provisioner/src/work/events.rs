//! What users read about their claims and volumes: events.
//!
//! An event is a hint: recording never fails and never waits.

use sidecar::controller::Seat;
use sidecar::kube::events::{Recorder, Reference, Severity, Source};

use crate::model::{Claim, Text, Volume};
use crate::plan::delete::Failure;

/// Where events go.
#[derive(Clone, Debug)]
pub struct Events {
    /// As upstream's library signs them.
    ours: Recorder,
    /// As upstream's sidecar signs them itself.
    sidecar: Recorder,
}

impl Events {
    /// Recorders, whose events are written from now on.
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

    /// An event on a claim.
    pub fn claim(&self, claim: &Claim, severity: Severity, reason: &'static str, message: &str) {
        self.ours
            .record(&reference(claim), severity, reason, message);
    }

    /// The claim is left to whoever fills volumes from its data source.
    pub fn left_to_populator(&self, claim: &Claim, message: &str) {
        let about = reference(claim);
        self.sidecar
            .record(&about, Severity::Normal, "Provisioning", message);
    }

    /// A volume could not be deleted, or not yet.
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
