//! Decodes objects of the API server into the records of [`model`](crate::model).
//!
//! Decoding never fails on anything an API server may send: absent and `null` fields are treated alike.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, nullable, own};
use sidecar::kube::objects::{claim, volume};

use crate::model::{Claim, Text, Uid, Volume};

/// A PersistentVolumeClaim as the API server encodes it.
pub type ClaimWire<'a> = lean::Parts<'a, claim::Spec<'a>, Status<'a>>;

/// The fields of a claim's `status` that the health monitor reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Status<'a> {
    phase: Option<lean::Text<'a>>,
    #[serde(deserialize_with = "nullable")]
    health_status: Health<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Health<'a> {
    #[serde(deserialize_with = "nullable")]
    health_conditions: Vec<Condition<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Condition<'a> {
    status: Option<lean::Text<'a>>,
    reason: Option<lean::Text<'a>>,
}

impl Record for Claim {
    type Wire<'a> = ClaimWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let stored = wire.status.health_status.health_conditions.iter();
        let claim = Self {
            uid: uid(wire.metadata.uid.as_deref()),
            volume: own(&wire.spec.volume_name),
            bound: wire.status.phase.as_deref() == Some("Bound")
                && wire.metadata.deletion_timestamp.is_none(),
            stored: stored
                .map(|one| {
                    (
                        interned(&one.status, strings),
                        interned(&one.reason, strings),
                    )
                })
                .collect(),
        };
        claim.is_special().then_some(claim)
    }
}

impl Record for Volume {
    type Wire<'a> = volume::Volume<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let bound = wire.status.text() == "Bound";
        let (csi, claim) = (wire.spec.csi?, wire.spec.claim_ref?);
        let (namespace, name) = (claim.namespace.as_deref()?, claim.name.as_deref()?);
        bound.then(|| Self {
            driver: interned(&csi.driver, strings),
            handle: own(&csi.volume_handle),
            claim: Text::from(format!("{namespace}/{name}")),
            uid: uid(claim.uid.as_deref()),
        })
    }
}

fn uid(text: Option<&str>) -> Uid {
    Uid::new(text.unwrap_or_default())
}

/// Whether a claim has health conditions.
///
/// # Errors
/// If the text is not a claim.
pub fn is_unhealthy(json: &str) -> Result<bool, serde_json::Error> {
    let claim: ClaimWire<'_> = serde_json::from_str(json)?;
    Ok(!claim.status.health_status.health_conditions.is_empty())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Events<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    items: Vec<Event<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Event<'a> {
    #[serde(deserialize_with = "nullable")]
    involved_object: sidecar::kube::objects::Reference<'a>,
    #[serde(deserialize_with = "nullable")]
    source: Source<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Source<'a> {
    component: Option<lean::Text<'a>>,
}

/// UIDs of the objects that this component has sent events about.
///
/// # Errors
/// If the text is not a list of events.
pub fn told_of(json: &str, component: &str) -> Result<Vec<Uid>, serde_json::Error> {
    let events: Events<'_> = serde_json::from_str(json)?;
    let own = events.items.iter();
    let own = own.filter(|event| event.source.component.as_deref() == Some(component));
    Ok(own
        .map(|event| uid(event.involved_object.uid.as_deref()))
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sidecar_testkit::build::{self, Object as _};

    use super::*;
    use crate::testing;

    fn read<R: Record>(object: impl Into<Value>) -> Option<R> {
        let text = object.into().to_string();
        R::from_wire(serde_json::from_str(&text).unwrap(), &Interner::default())
    }

    fn claim() -> build::Claim {
        build::claim("ns/c1").bound_to("pv1").uid("uid-1")
    }

    #[test]
    fn h_45_only_special_claims_are_kept() {
        let conditions = json!([{"status": "Degraded", "reason": "A", "message": "m"}]);
        let field = "/status/healthStatus/healthConditions";
        assert_eq!(read::<Claim>(claim()), None);
        assert_eq!(
            read::<Claim>(claim().with("/status/healthStatus", json!({"lastTransitionTime": "x"}))),
            None
        );
        assert_eq!(read::<Claim>(claim().with(field, Value::Null)), None);
        assert_eq!(
            read(claim().with(field, conditions)),
            Some(testing::claim(&["Degraded A"]))
        );
        let bound = |claim: build::Claim| read::<Claim>(claim).map(|claim| claim.bound);
        assert_eq!(bound(claim().with("/status/phase", "Lost")), Some(false));
        assert_eq!(bound(claim().deleting()), Some(false));
    }

    #[test]
    fn h_45_and_57_only_bound_volumes_are_kept() {
        let volume = |csi: bool| {
            let volume = build::volume("pv1")
                .bound_to("ns/c1")
                .with("/spec/claimRef/uid", "uid-1");
            if csi {
                volume.csi("test.csi.driver", "h1")
            } else {
                volume
            }
        };
        assert_eq!(read(volume(true)), Some(testing::volume("1")));
        assert_eq!(read::<Volume>(volume(false)), None, "in-tree");
        assert_eq!(read::<Volume>(volume(true).phase("Released")), None);
        assert_eq!(
            read::<Volume>(build::volume("pv1").csi("test.csi.driver", "h1")),
            None
        );
    }

    #[test]
    fn h_65_and_66_events_of_our_component() {
        let event = |component: &str, uid: &str| json!({"involvedObject": {"uid": uid}, "source": {"component": component}});
        let list = json!({"items": [event("us", "a"), event("them", "b"), {"source": null}]});
        assert_eq!(told_of(&list.to_string(), "us").unwrap(), [Uid::new("a")]);
        assert_eq!(told_of("{\"items\":null}", "us").unwrap(), []);
    }
}
