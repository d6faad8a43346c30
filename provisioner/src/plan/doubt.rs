//! The durable record of a call in doubt: what a CreateVolume that may still be running was asked.
//!
//! Separate, because it is read by other versions of the program, and because whoever may change a
//! claim may write one: nothing in it is believed that does not follow from the cluster's own
//! objects as well, see [`claim`](super::claim).

use serde::{Deserialize, Serialize};

use super::request::Prepared;

/// The only version there is.
const VERSION: u32 = 1;

/// What may be in the annotation, in full; the API server takes 256 KiB of annotations.
const MOST_BYTES: usize = 256 * 1024;

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    driver: &'a str,
    prepared: &'a Prepared,
}

#[derive(Deserialize)]
struct Envelope {
    version: u32,
    driver: String,
}

#[derive(Deserialize)]
struct Content {
    prepared: Prepared,
}

/// Why a record says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The annotation is gone, the finalizer is not.
    #[error("it is missing")]
    Missing,
    /// Not what this program writes.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// A later version's.
    #[error("its format {0} is not known to this version")]
    Version(u32),
    /// Another driver's.
    #[error("it is of the driver {0}")]
    Driver(String),
}

/// The record of a call that `driver` was asked.
#[must_use]
pub fn write(driver: &str, prepared: &Prepared) -> String {
    let record = Written {
        version: VERSION,
        driver,
        prepared,
    };
    // Cannot fail: all keys are strings. An empty record is one that cannot be read.
    serde_json::to_string(&record).unwrap_or_default()
}

/// What `driver` was asked according to `text`.
///
/// # Errors
/// Says why nobody knows.
pub fn read(text: &str, driver: &str) -> Result<Prepared, Unreadable> {
    if text.len() > MOST_BYTES {
        return Err(Unreadable::Damaged(format!("it has {} bytes", text.len())));
    }
    let damaged = |error: serde_json::Error| Unreadable::Damaged(error.to_string());
    let envelope: Envelope = serde_json::from_str(text).map_err(damaged)?;
    if envelope.version != VERSION {
        return Err(Unreadable::Version(envelope.version));
    }
    if envelope.driver != driver {
        return Err(Unreadable::Driver(envelope.driver));
    }
    let content: Content = serde_json::from_str(text).map_err(damaged)?;
    Ok(content.prepared)
}

/// In which respect two requests differ; `None` if the driver could not tell one from the other and
/// the same PersistentVolume came out.
#[must_use]
pub fn difference(recorded: &Prepared, due: &Prepared) -> Option<&'static str> {
    let (was, is) = (&recorded.blueprint, &due.blueprint);
    let parts = [
        ("the volume's name", recorded.name == due.name),
        (
            "the access modes",
            recorded.modes == due.modes && was.access_modes == is.access_modes,
        ),
        ("the parameters", recorded.parameters == due.parameters),
        (
            "the attributes class's parameters",
            recorded.mutable_parameters == due.mutable_parameters,
        ),
        (
            "the data source",
            recorded.source == due.source && recorded.release == due.release,
        ),
        ("the topology", recorded.requirement == due.requirement),
        ("the Secrets", was.secrets == is.secrets),
        ("the requested size", was.requested == is.requested),
        ("the mount options", was.mount_options == is.mount_options),
        (
            "the file system",
            was.fs_type == is.fs_type && was.volume_mode == is.volume_mode,
        ),
    ];
    let differs = parts
        .into_iter()
        .find(|(_, same)| !same)
        .map(|(part, _)| part);
    differs.or_else(|| {
        // The claim's version is that of the first call.
        let mut same = recorded.clone();
        same.blueprint.claim.resource_version = is.claim.resource_version.clone();
        (same != *due).then_some("the class")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::pv::{Blueprint, ForClaim, SecretName, SecretRefs};
    use crate::plan::request::ContentSource;

    fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
        proptest::collection::btree_map(".{0,8}", ".{0,8}", 0..4)
    }

    prop_compose! {
        fn prepared()(
            (name, uid, fs_type) in (".{0,20}", ".{0,20}", ".{0,8}"),
            (parameters, mutable_parameters) in (texts(), texts()),
            source in proptest::option::of(prop_oneof![
                ".{0,8}".prop_map(ContentSource::Snapshot),
                ".{0,8}".prop_map(ContentSource::Volume),
            ]),
            (modes, release) in (proptest::collection::vec("[A-Z_]{1,8}", 0..3), proptest::option::of(".{0,8}")),
            secret in proptest::option::of((".{0,8}", ".{0,8}")),
            (requested, sourced, topology) in any::<(i64, bool, bool)>(),
        ) -> Prepared {
            Prepared {
                name,
                modes,
                parameters,
                mutable_parameters,
                source,
                release,
                blueprint: Blueprint {
                    claim: ForClaim { uid, ..ForClaim::default() },
                    fs_type,
                    requested,
                    sourced,
                    topology,
                    secrets: SecretRefs {
                        provisioner: secret.map(|(name, namespace)| SecretName { name, namespace }),
                        ..SecretRefs::default()
                    },
                    ..Blueprint::default()
                },
                ..Prepared::default()
            }
        }
    }

    proptest! {
        #[test]
        fn a_record_comes_back_as_it_was(prepared in prepared()) {
            let text = write("d", &prepared);
            prop_assert_eq!(read(&text, "d"), Ok(prepared.clone()));
            prop_assert_eq!(read(&text, "e"), Err(Unreadable::Driver("d".into())));
            prop_assert_eq!(difference(&prepared, &prepared), None);
            prop_assert_eq!(write("d", &read(&text, "d").unwrap()), text);
        }

        #[test]
        fn nothing_that_is_read_panics(text in r#"[\[\]{}":,a-z0-9\\]{0,60}"#) {
            prop_assert!(read(&text, "d").is_err());
        }
    }

    /// What an earlier version wrote must stay readable: this is its text, byte for byte.
    #[test]
    fn the_format_is_a_contract() {
        let text = concat!(
            r#"{"version":1,"driver":"d","prepared":{"name":"pvc-u","modes":["SINGLE_NODE_WRITER"],"#,
            r#""parameters":{"a":"b"},"source":{"snapshot":"sid"},"node":"n1","classUid":"cu","#,
            r#""release":"s1","requirement":{"terms":[{"keys":["zone"],"values":[["z1"]]}],"first":0},"#,
            r#""blueprint":{"claim":{"namespace":"ns1","name":"c1","uid":"u","resourceVersion":"7"},"#,
            r#""class":"sc1","requested":5,"secrets":{"provisioner":{"name":"s","namespace":"n"}},"later":1}}}"#,
        );
        let prepared = read(text, "d").unwrap();
        assert_eq!(
            (&*prepared.name, &*prepared.node, &*prepared.class_uid),
            ("pvc-u", "n1", "cu")
        );
        assert_eq!(prepared.source, Some(ContentSource::Snapshot("sid".into())));
        assert_eq!(prepared.release.as_deref(), Some("s1"));
        assert!(prepared.requirement.is_some());
        assert_eq!(prepared.blueprint.claim.resource_version, "7");
        assert_eq!(prepared.blueprint.requested, 5);
        let again = write("d", &prepared);
        assert_eq!(read(&again, "d"), Ok(prepared));
    }

    #[test]
    fn too_much_and_too_deep_are_refused() {
        let deep = format!(
            r#"{{"version":1,"driver":"d","prepared":{}"#,
            "[".repeat(10_000)
        );
        assert!(matches!(read(&deep, "d"), Err(Unreadable::Damaged(_))));
        let much = " ".repeat(MOST_BYTES + 1);
        assert!(matches!(read(&much, "d"), Err(Unreadable::Damaged(_))));
    }

    #[test]
    fn the_claim_s_version_is_no_difference() {
        let prepared = Prepared::default();
        let mut later = prepared.clone();
        later.blueprint.claim.resource_version = "9".into();
        assert_eq!(difference(&prepared, &later), None);
        later.blueprint.claim.uid = "x".into();
        assert_eq!(difference(&prepared, &later), Some("the class"));
    }
}
