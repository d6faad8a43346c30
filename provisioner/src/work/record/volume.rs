//! PersistentVolumes on the wire.
//!
//! For most of them only the name is kept.

use std::sync::{Arc, LazyLock};

use migration::TRANSLATOR;
use serde_json::{Value, json};
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, list, own, seconds, shared};
use sidecar::kube::objects::{node_selector, volume};
use sidecar::lifecycle::{Id, Lifecycle, Look, Step};
use sidecar::node_selector::Term;

use crate::keys::{
    BETA_STORAGE_CLASS, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, MIGRATED_TO,
    PROVISIONED_BY, VOLUME_FINALIZER,
};
use crate::model::{
    ClaimRef, Csi, Due, InTree, Owner, Reclaim, Source, Volume, VolumeDetail, VolumeMode,
    VolumePhase,
};
use crate::plan::lifecycle::{VolumeSeen, of_volume};
use crate::plan::migrated;

impl Record for Volume {
    type Wire<'a> = volume::Volume<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let due = Due::of(
            Reclaim::parse(
                wire.spec
                    .persistent_volume_reclaim_policy
                    .as_deref()
                    .unwrap_or_default(),
            ),
            VolumePhase::parse(wire.status.text()),
            wire.metadata.deletion_timestamp.is_some(),
            wire.metadata
                .finalizers
                .iter()
                .any(|held| **held == *VOLUME_FINALIZER),
        );
        Some(match due {
            Due::Nothing => Self::NameOnly,
            Due::FinalizerAction(_) | Due::End => read_volume(wire, strings).keep(),
        })
    }

    fn steps<'w>(wire: &'w Self::Wire<'_>, look: Look, measured: &Lifecycle) -> Vec<Step<'w>> {
        of_volume(&seen(wire, measured.driver()), look, measured.node())
    }

    fn lifecycle_id(&self) -> Option<Id> {
        match self {
            Self::Deletable(volume) => Some(Id::of(&volume.uid)),
            Self::NameOnly | Self::Finalizer(_) => None,
        }
    }

    fn into_shared(self) -> Arc<Self> {
        static QUIET: LazyLock<Arc<Volume>> = LazyLock::new(|| Arc::new(Volume::NameOnly));
        match self {
            Self::NameOnly => Arc::clone(&QUIET),
            Self::Finalizer(..) | Self::Deletable(_) => Arc::new(self),
        }
    }
}

/// What is looked at of a volume, whether or not it is kept.
fn seen<'w>(wire: &'w volume::Volume<'_>, driver: &str) -> VolumeSeen<'w> {
    let volume::Volume {
        metadata,
        spec,
        status,
    } = wire;
    let annotation = |key| metadata.annotations.get(key).map(|text| &**text);
    let provisioned_by = annotation(PROVISIONED_BY);
    let deletable = provisioned_by == Some(driver) || annotation(MIGRATED_TO) == Some(driver);
    let mut held = metadata.finalizers.iter();
    let claim = spec.claim_ref.as_ref();
    let reclaim = spec.persistent_volume_reclaim_policy.as_deref();
    let time = |text: Option<&str>| text?.parse().ok();
    VolumeSeen {
        uid: metadata.uid.as_deref().unwrap_or_default(),
        created: time(metadata.creation_timestamp.as_deref()),
        deleted: seconds(metadata.deletion_timestamp.as_deref()),
        ours: deletable || provisioned_by.is_some_and(|by| migrated::driver_of(by) == driver),
        deletable,
        held: held.any(|held| **held == *VOLUME_FINALIZER),
        claim: { claim.and_then(|claim| claim.uid.as_deref()) }.unwrap_or_default(),
        class: spec.storage_class_name.as_deref().unwrap_or_default(),
        reclaim: Reclaim::parse(reclaim.unwrap_or_default()),
        phase: VolumePhase::parse(status.text()),
        changed: time(status.last_phase_transition_time.as_deref()),
    }
}

/// The volume with all its details: for volumes that are read one by one.
#[must_use]
pub fn read_volume(wire: volume::Volume<'_>, strings: &Interner) -> VolumeDetail {
    let volume::Volume {
        metadata,
        mut spec,
        status,
    } = wire;
    let annotations = &metadata.annotations;
    let annotation = |key| annotations.get(key).map(|text| strings.intern(text));
    let in_tree = in_tree(&metadata, &mut spec);
    let in_tree = in_tree.and_then(|object| translated(&object, &spec, strings));
    let (source, affinity) =
        in_tree.unwrap_or_else(|| (native(&spec, strings), terms(&spec, strings)));
    VolumeDetail {
        name: own(&metadata.name),
        uid: own(&metadata.uid),
        version: metadata.version(),
        deleting: metadata.deletion_timestamp.is_some(),
        finalizers: list(&metadata.finalizers, strings),
        owner: Owner {
            provisioned_by: annotation(PROVISIONED_BY),
            migrated_to: annotation(MIGRATED_TO),
            csi_driver: match &source {
                Source::Csi(csi) => Some(csi.driver.clone()),
                Source::InTree(source) => Some(strings.intern(source.driver)),
                Source::Other => None,
            },
            in_tree: matches!(source, Source::InTree(_)),
        },
        phase: VolumePhase::parse(status.text()),
        reclaim: Reclaim::parse(
            spec.persistent_volume_reclaim_policy
                .as_deref()
                .unwrap_or_default(),
        ),
        class: annotation(BETA_STORAGE_CLASS)
            .or_else(|| shared(&spec.storage_class_name, strings))
            .unwrap_or_default(),
        class_field: shared(&spec.storage_class_name, strings).unwrap_or_default(),
        claim: spec.claim_ref.as_ref().map(|claim| ClaimRef {
            namespace: interned(&claim.namespace, strings),
            name: own(&claim.name),
            uid: own(&claim.uid),
        }),
        mode: spec.volume_mode.as_deref().map(VolumeMode::parse),
        source,
        deletion_secret_name: annotation(DELETION_SECRET_NAME),
        deletion_secret_namespace: annotation(DELETION_SECRET_NAMESPACE),
        affinity,
    }
}

fn native(spec: &volume::Spec<'_>, strings: &Interner) -> Source {
    match &spec.csi {
        Some(csi) => Source::Csi(csi_source(csi, strings)),
        None => Source::Other,
    }
}

fn csi_source(csi: &volume::Csi<'_>, strings: &Interner) -> Csi {
    Csi {
        driver: interned(&csi.driver, strings),
        handle: own(&csi.volume_handle),
    }
}

/// The object that the translation of an in-tree source takes; `None` for other sources. Such volumes are rare.
fn in_tree(metadata: &lean::Meta<'_>, spec: &mut volume::Spec<'_>) -> Option<Value> {
    let mut object = spec.take_in_tree(metadata)?;
    if let Some(required) = spec.affinity()
        && let Ok(required) = serde_json::from_str::<Value>(required)
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        let affinity = json!({ "required": required });
        spec.insert("nodeAffinity".to_owned(), affinity);
    }
    Some(object)
}

/// A node affinity's terms, if there is one.
type Affinity = Option<Arc<[Term]>>;

/// The source and affinity of a volume with an in-tree source, translated for the CSI driver that replaced the plugin;
/// `None` if none did.
fn translated(
    object: &Value,
    spec: &volume::Spec<'_>,
    strings: &Interner,
) -> Option<(Source, Affinity)> {
    let driver = TRANSLATOR.of_volume(object)?.name;
    let (csi, affinity) = match in_words_of_csi(object, strings) {
        Ok((csi, affinity)) => (Ok(csi), affinity),
        Err(why) => (Err(why.into()), terms(spec, strings)),
    };
    let source = InTree { driver, csi };
    Some((Source::InTree(Box::new(source)), affinity))
}

fn in_words_of_csi(object: &Value, strings: &Interner) -> Result<(Csi, Affinity), String> {
    let volume = TRANSLATOR.volume_to_csi(object);
    let volume = volume.map_err(|error| error.to_string())?;
    let read = |spec: &volume::Spec<'_>| {
        let csi = spec.csi.as_ref().map(|csi| csi_source(csi, strings));
        (csi.unwrap_or_default(), terms(spec, strings))
    };
    volume::read_spec(&volume, read).map_err(|error| error.to_string())
}

fn terms(spec: &volume::Spec<'_>, strings: &Interner) -> Affinity {
    node_selector::terms(spec.affinity()?, strings).map(Arc::from)
}
