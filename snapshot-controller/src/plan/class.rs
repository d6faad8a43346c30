//! The class of a VolumeSnapshot or VolumeGroupSnapshot. Read only where its fields are needed: deleting a class must
//! not disturb snapshots that are taken.

use std::sync::Arc;

use serde_json::json;
use sidecar::secret::SecretRef;
use sidecar::snapshot::group;
use sidecar::snapshot::secret::{self, Words};

use super::ask::Ask;
use super::attempt::Flow;
use super::complaint::{Complaint, RequeueTrigger};
use super::origin::Problem;
use super::request::{Purpose, patch};
use crate::model::{Class, Head, Kind, Text};

/// A class and its name.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    kind: Kind,
    pub(super) name: Text,
    pub(super) class: Arc<Class>,
}

impl Chosen {
    /// A change of the class.
    pub(super) fn changes(&self) -> RequeueTrigger {
        changes(self.kind, self.name.clone())
    }

    /// The Secret that it names for the content of this name. The controller writes the Secret's name to the content:
    /// the objects that it is resolved from may be gone when the content is deleted.
    pub(super) fn secret(
        &self,
        head: &Head<'_>,
        content: &str,
    ) -> Result<Option<SecretRef>, Complaint> {
        let (namespace, name) = (&**head.namespace, &**head.name);
        let words = match head.kind {
            Kind::Single => Words::of_snapshot((namespace, name), content),
            Kind::Group => Words {
                called: "GroupSnapshotter",
                keys: [
                    group::SECRET_NAME_PARAMETER,
                    group::SECRET_NAMESPACE_PARAMETER,
                ],
                content: (group::CONTENT_NAME_TOKEN, content),
                namespace: (group::NAMESPACE_TOKEN, namespace),
                name: (group::NAME_TOKEN, name),
            },
        };
        let Class {
            secret_name,
            secret_namespace,
            ..
        } = &*self.class;
        let templates = (secret_name.as_deref(), secret_namespace.as_deref());
        secret::resolve(templates, &words).map_err(|error| {
            let problem = Problem::new(error.to_string(), []);
            problem.unfit(head).until(self.changes())
        })
    }
}

fn changes(kind: Kind, name: Text) -> RequeueTrigger {
    match kind {
        Kind::Single => RequeueTrigger::Class(name),
        Kind::Group => RequeueTrigger::GroupClass(name),
    }
}

/// The class of this name.
pub(super) fn named(ask: Ask<'_>, kind: Kind, name: &Text) -> Flow<Chosen> {
    let name = name.clone();
    let Some(class) = ask.informers.class_of(kind, &name) else {
        let reason = kind.say("GetSnapshotClassFailed", "GetGroupSnapshotClassFailed");
        let failed = kind.say(
            "Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io",
            "failed to get group snapshot class with error \
             volumegroupsnapshotclass.groupsnapshot.storage.k8s.io",
        );
        let complaint = Complaint::error(reason, format!("{failed} {name:?} not found"));
        return Err(complaint.until(changes(kind, name)).into());
    };
    Ok(Chosen { kind, name, class })
}

/// Writes the only default class of this driver into the object.
pub(super) fn write_default<T>(
    ask: Ask<'_>,
    head: &Head<'_>,
    driver: Result<Text, Problem>,
) -> Flow<T> {
    let (kind, noun) = (head.kind, head.kind.noun());
    let refuse = |text: &str| {
        let message = format!("Failed to set default {noun} class with error {text}");
        let reason = kind.say(
            "SetDefaultSnapshotClassFailed",
            "SetDefaultGroupSnapshotClassFailed",
        );
        Complaint::error(reason, message)
    };
    let driver = driver.map_err(|problem| refuse(&problem.text).until_all(problem.triggers))?;
    let (defaults, any) = match kind {
        Kind::Single => (
            ask.informers.default_classes(&driver),
            RequeueTrigger::AnyClass,
        ),
        Kind::Group => {
            let defaults = ask.informers.default_group_classes(&driver);
            (defaults, RequeueTrigger::AnyGroupClass)
        }
    };
    let name = match &*defaults {
        [name] => &**name,
        [] => {
            return Err(refuse(&format!("cannot find default {noun} class"))
                .until(any)
                .into());
        }
        // Upstream uses the same words for groups.
        several => {
            let number = several.len();
            let text = format!("{number} default snapshot classes were found");
            return Err(refuse(&text).until(any).into());
        }
    };
    let body = json!({
        "metadata": {"resourceVersion": &**head.version},
        "spec": {(class_field(kind)): name},
    });
    patch(Purpose::DefaultClass, head.object(), body)
}

/// The field of specs for the class's name.
pub(super) fn class_field(kind: Kind) -> &'static str {
    kind.say("volumeSnapshotClassName", "volumeGroupSnapshotClassName")
}
