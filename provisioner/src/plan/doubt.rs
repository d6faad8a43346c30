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
