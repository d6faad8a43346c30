//! Requests of the health monitor to the API server and the driver.

use std::borrow::Cow;
use std::convert::Infallible;

use csi_proto::csi::{ControllerGetVolumeHealthRequest, ControllerListVolumeHealthRequest};
use csi_proto::volume_condition::{ControllerGetVolumeRequest, ListVolumesRequest};
use jiff::Timestamp;
use serde_json::{Value, json};
use sidecar::controller::request::{self, Body, OfKind, Part, Patch, Requests};
use sidecar::why::Kind;

use super::HealthMonitor;
use super::event::{ABNORMAL, Tell};
use crate::model::{Conditions, Text, Uid, Volume};

/// A request of the health monitor.
pub type Request = request::Request<HealthMonitor>;
/// The result of a request.
pub type Reply = request::Reply<HealthMonitor>;
/// A write of the health monitor.
pub type Write = request::Write<HealthMonitor>;

/// An object, or a list of objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// PersistentVolumeClaim, `namespace/name`.
    Claim(Text),
    /// All events about abnormal volumes.
    Events,
}

/// The part of an answer that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The answer contains a claim.
    Claim {
        /// Whether it has health conditions.
        unhealthy: bool,
    },
    /// UIDs of the claims about which our component has sent events.
    Events(Vec<Uid>),
}

/// The purpose of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Replaces the claim's conditions with the driver's report.
    Report,
    /// Removes the claim's conditions.
    Clear,
}

/// An event on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `namespace/name`.
    pub claim: Text,
    /// `metadata.uid` of the claim.
    pub uid: Uid,
    /// The content of the event.
    pub tell: Tell,
}

sidecar::calls! {
    ListHealth(ControllerListVolumeHealthRequest),
    GetHealth(ControllerGetVolumeHealthRequest),
    ListConditions(ListVolumesRequest),
    GetCondition(ControllerGetVolumeRequest),
}

impl OfKind for Object {
    fn kind(&self) -> &'static str {
        match self {
            Self::Claim(_) => Kind::Claim.name(),
            Self::Events => "Event",
        }
    }
}

impl request::Object for Object {
    fn key(&self) -> &str {
        match self {
            Self::Claim(key) => key,
            Self::Events => "",
        }
    }

    fn selector(&self) -> Option<(&'static str, Cow<'_, str>)> {
        match self {
            Self::Claim(_) => None,
            Self::Events => {
                let selector = format!("reason={ABNORMAL},type=Warning");
                Some(("fieldSelector", selector.into()))
            }
        }
    }
}

impl Requests for HealthMonitor {
    type Object = Object;
    type Found = Found;
    type Purpose = Purpose;
    type Secret = Infallible;
    type Calls = Call;
    type Event = Event;
}

/// A merge patch for the status of the volume's claim. A merge patch replaces the whole list; a strategic merge patch
/// would merge conditions by status alone, and the API server would reject the result.
#[must_use]
pub fn patch(volume: &Volume, conditions: &Conditions, now: Timestamp) -> Request {
    let list: Vec<Value> = { conditions.iter() }
        .map(|one| json!({"status": one.status.name(), "reason": *one.reason, "message": *one.message}))
        .collect();
    let clears = list.is_empty();
    // The time is kept: it says when the volume recovered.
    let list = if clears { Value::Null } else { list.into() };
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let health = json!({"healthConditions": list, "lastTransitionTime": time});
    Request::Write(Write {
        purpose: if clears {
            Purpose::Clear
        } else {
            Purpose::Report
        },
        object: Object::Claim(volume.claim.clone()),
        uid: Some(volume.uid.to_string().into()),
        body: Body::Patch(
            Part::Status,
            Patch::Merge(json!({"status": {"healthStatus": health}})),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{report, volume};

    #[test]
    fn h_20_and_26_what_is_written() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let body = |conditions: &[&str]| {
            let request = patch(&volume("1"), &report(conditions), now);
            let Request::Write(write) = request else {
                panic!("a write")
            };
            assert_eq!(write.object, Object::Claim("ns/c1".into()));
            assert_eq!(write.uid.as_deref(), Some("uid-1"));
            let Body::Patch(Part::Status, patch) = write.body else {
                panic!("a patch of the status")
            };
            assert_eq!(patch.content_type(), "application/merge-patch+json");
            patch.body().clone()
        };
        assert_eq!(
            body(&["Inaccessible VolumeNotFound"]),
            json!({"status": {"healthStatus": {
                "healthConditions": [{"status": "Inaccessible", "reason": "VolumeNotFound", "message": "m"}],
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }}})
        );
        assert_eq!(
            body(&[]),
            json!({"status": {"healthStatus": {
                "healthConditions": null, "lastTransitionTime": "2026-01-02T03:04:05Z",
            }}})
        );
    }
}
