//! Reading and building `coordination.k8s.io/v1` Leases as plain JSON.
//!
//! JSON and not a typed struct because a Lease is written with PUT (sidecars may get, create and
//! update it, not patch it): fields that others wrote must survive.

use serde_json::{Map, Value, json};

use super::decide::{Claim, Record};

/// Labels from `--leader-election-labels`.
pub type Labels = Vec<(String, String)>;

/// Parses a Lease. Fields that are missing or of another type count as absent.
pub fn read(lease: &Value) -> Record {
    let text = |field: &str| {
        let value = lease.pointer(&format!("/spec/{field}"));
        value.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let number = |field: &str| {
        lease
            .pointer(&format!("/spec/{field}"))
            .and_then(Value::as_i64)
    };
    Record {
        holder: text("holderIdentity"),
        // A negative duration has expired at once.
        seconds: number("leaseDurationSeconds").map(|seconds| u64::try_from(seconds).unwrap_or(0)),
        transitions: number("leaseTransitions").unwrap_or(0),
        acquired: text("acquireTime"),
        renewed: text("renewTime"),
    }
}

/// A Lease for creation.
pub fn new(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "namespace": namespace, "name": name },
    })
}

/// The Lease with `claim` written into it. `now` is RFC 3339 with microseconds, the format of
/// `MicroTime`.
///
/// Our labels are merged into the existing ones; everything else stays. `managedFields` are
/// omitted: the API server keeps its own.
pub fn with_claim(lease: &Value, claim: &Claim, labels: &Labels, now: &str) -> Value {
    let mut lease = lease.as_object().cloned().unwrap_or_default();
    let mut metadata = take(&mut lease, "metadata");
    metadata.remove("managedFields");
    if !labels.is_empty() {
        let mut merged = take(&mut metadata, "labels");
        merged.extend(
            labels
                .iter()
                .map(|(key, value)| (key.clone(), json!(value))),
        );
        metadata.insert("labels".to_owned(), Value::Object(merged));
    }
    let mut spec = take(&mut lease, "spec");
    spec.insert("holderIdentity".to_owned(), json!(claim.holder));
    spec.insert("leaseDurationSeconds".to_owned(), json!(claim.seconds));
    spec.insert("leaseTransitions".to_owned(), json!(claim.transitions));
    spec.insert(
        "acquireTime".to_owned(),
        json!(claim.acquired.as_deref().unwrap_or(now)),
    );
    spec.insert("renewTime".to_owned(), json!(now));
    lease.insert("metadata".to_owned(), Value::Object(metadata));
    lease.insert("spec".to_owned(), Value::Object(spec));
    Value::Object(lease)
}

/// Takes the object out of this field, empty if the field holds none.
fn take(parent: &mut Map<String, Value>, field: &str) -> Map<String, Value> {
    if let Some(Value::Object(map)) = parent.remove(field) {
        map
    } else {
        Map::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-02T03:04:05.000006Z";

    fn claim() -> Claim {
        Claim {
            holder: "host-a".to_owned(),
            seconds: 15,
            transitions: 3,
            acquired: None,
        }
    }

    // Row 49
    #[test]
    fn a_new_lease_has_holder_duration_and_times() {
        let first = Claim {
            transitions: 0,
            ..claim()
        };
        let lease = with_claim(&new("ns", "lease"), &first, &Labels::new(), NOW);
        let expected = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "namespace": "ns", "name": "lease" },
            "spec": {
                "holderIdentity": "host-a",
                "leaseDurationSeconds": 15,
                "leaseTransitions": 0,
                "acquireTime": NOW,
                "renewTime": NOW,
            },
        });
        assert_eq!(lease, expected);
    }

    // Row 55
    #[test]
    fn labels_are_merged_and_everything_foreign_stays() {
        let old = json!({
            "metadata": {
                "name": "lease", "resourceVersion": "7", "uid": "u", "annotations": {"x": "y"},
                "labels": {"keep": "me", "a": "old"}, "managedFields": [{"manager": "m"}],
                "ownerReferences": [{"name": "o"}],
            },
            "spec": {"holderIdentity": "other", "strategy": "OldestEmulationVersion"},
        });
        let labels = vec![
            ("a".to_owned(), "b".to_owned()),
            ("c".to_owned(), "d".to_owned()),
        ];
        let lease = with_claim(&old, &claim(), &labels, NOW);
        let expected = json!({"keep": "me", "a": "b", "c": "d"});
        assert_eq!(lease["metadata"]["labels"], expected);
        assert_eq!(lease["metadata"]["annotations"], json!({"x": "y"}));
        assert_eq!(lease["metadata"]["resourceVersion"], "7");
        assert_eq!(lease["metadata"]["ownerReferences"], json!([{"name": "o"}]));
        assert_eq!(lease["metadata"].get("managedFields"), None);
        assert_eq!(lease["spec"]["strategy"], "OldestEmulationVersion");
    }

    #[test]
    fn the_acquire_time_is_kept_when_told_so() {
        let kept = Claim {
            acquired: Some("then".to_owned()),
            ..claim()
        };
        let lease = with_claim(&new("ns", "lease"), &kept, &Labels::new(), NOW);
        assert_eq!(lease["spec"]["acquireTime"], "then");
        assert_eq!(lease["spec"]["renewTime"], NOW);
    }

    #[test]
    fn what_was_written_is_read_back() {
        let record = read(&with_claim(
            &new("ns", "lease"),
            &claim(),
            &Labels::new(),
            NOW,
        ));
        let expected = Record {
            holder: "host-a".to_owned(),
            seconds: Some(15),
            transitions: 3,
            acquired: NOW.to_owned(),
            renewed: NOW.to_owned(),
        };
        assert_eq!(record, expected);
    }

    #[test]
    fn nothing_in_a_lease_breaks_reading_or_writing_it() {
        for lease in [
            json!(null),
            json!([]),
            json!("text"),
            json!({"metadata": 1, "spec": []}),
            json!({"metadata": {"labels": "x"}, "spec": {"holderIdentity": 5}}),
            json!({"spec": {"leaseTransitions": "7", "leaseDurationSeconds": {}}}),
        ] {
            assert_eq!(read(&lease), Record::default(), "{lease}");
            let labels = vec![("a".to_owned(), "b".to_owned())];
            let written = with_claim(&lease, &claim(), &labels, NOW);
            assert_eq!(read(&written).holder, "host-a", "{lease}");
            assert_eq!(written["metadata"]["labels"]["a"], "b", "{lease}");
        }
        let negative = read(&json!({"spec": {"leaseDurationSeconds": -4}}));
        assert_eq!(negative.seconds, Some(0));
    }
}
