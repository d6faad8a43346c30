//! PersistentVolumes on the wire.
//!
//! Of most of them nothing is kept but the name.

use std::sync::{Arc, LazyLock};

use migration::TRANSLATOR;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, own, shared};

use super::{ReferenceWire, interned};
use crate::keys::{
    BETA_STORAGE_CLASS, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, MIGRATED_TO,
    PROVISIONED_BY, VOLUME_FINALIZER,
};
use crate::model::{
    AffinityExpression, AffinityTerm, ClaimRef, Csi, Due, InTree, Owner, Reclaim, Source, Volume,
    VolumeDetail, VolumeMode, VolumePhase,
};

/// A PersistentVolume on the wire.
pub type VolumeWire<'a> = lean::Parts<'a, SpecWire<'a>, StatusWire<'a>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpecWire<'a> {
    #[serde(borrow)]
    csi: Option<CsiWire<'a>>,
    aws_elastic_block_store: Option<Value>,
    gce_persistent_disk: Option<Value>,
    cinder: Option<Value>,
    azure_disk: Option<Value>,
    azure_file: Option<Value>,
    vsphere_volume: Option<Value>,
    portworx_volume: Option<Value>,
    #[serde(borrow)]
    claim_ref: Option<ReferenceWire<'a>>,
    #[serde(borrow)]
    persistent_volume_reclaim_policy: Option<lean::Text<'a>>,
    #[serde(borrow)]
    storage_class_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_mode: Option<lean::Text<'a>>,
    #[serde(borrow)]
    node_affinity: Option<AffinityWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CsiWire<'a> {
    #[serde(borrow)]
    driver: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_handle: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AffinityWire<'a> {
    #[serde(borrow)]
    required: Option<SelectorWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectorWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    node_selector_terms: Vec<TermWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TermWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    match_expressions: Vec<ExpressionWire<'a>>,
    #[serde(deserialize_with = "nullable")]
    match_fields: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionWire<'a> {
    #[serde(borrow)]
    key: Option<lean::Text<'a>>,
    #[serde(borrow)]
    operator: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    values: Vec<lean::Text<'a>>,
}

/// What is read of `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusWire<'a> {
    #[serde(borrow)]
    phase: Option<lean::Text<'a>>,
}

impl Record for Volume {
    type Wire<'a> = VolumeWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let due = Due::of(
            Reclaim::parse(
                wire.spec
                    .persistent_volume_reclaim_policy
                    .as_deref()
                    .unwrap_or_default(),
            ),
            VolumePhase::parse(wire.status.phase.as_deref().unwrap_or_default()),
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

    fn into_shared(self) -> Arc<Self> {
        static QUIET: LazyLock<Arc<Volume>> = LazyLock::new(|| Arc::new(Volume::NameOnly));
        match self {
            Self::NameOnly => Arc::clone(&QUIET),
            Self::Finalizer(..) | Self::Deletable(_) => Arc::new(self),
        }
    }
}

/// The volume in full: for volumes read one by one.
#[must_use]
pub fn read_volume(wire: VolumeWire<'_>, strings: &Interner) -> VolumeDetail {
    let VolumeWire {
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
        phase: VolumePhase::parse(status.phase.as_deref().unwrap_or_default()),
        reclaim: Reclaim::parse(
            spec.persistent_volume_reclaim_policy
                .as_deref()
                .unwrap_or_default(),
        ),
        class: annotation(BETA_STORAGE_CLASS)
            .or_else(|| shared(&spec.storage_class_name, strings))
            .unwrap_or_default(),
        class_field: shared(&spec.storage_class_name, strings).unwrap_or_default(),
        claim: { spec.claim_ref.as_ref() }.map(|claim| ClaimRef {
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

fn native(spec: &SpecWire<'_>, strings: &Interner) -> Source {
    match &spec.csi {
        Some(csi) => Source::Csi(csi_source(csi, strings)),
        None => Source::Other,
    }
}

fn csi_source(csi: &CsiWire<'_>, strings: &Interner) -> Csi {
    Csi {
        driver: interned(&csi.driver, strings),
        handle: own(&csi.volume_handle),
    }
}

/// What a translation reads of a volume with an in-tree source, which is rare; `None` for others.
fn in_tree(metadata: &lean::Meta<'_>, spec: &mut SpecWire<'_>) -> Option<Value> {
    if spec.csi.is_some() {
        return None;
    }
    let sources = [
        ("awsElasticBlockStore", &mut spec.aws_elastic_block_store),
        ("gcePersistentDisk", &mut spec.gce_persistent_disk),
        ("cinder", &mut spec.cinder),
        ("azureDisk", &mut spec.azure_disk),
        ("azureFile", &mut spec.azure_file),
        ("vsphereVolume", &mut spec.vsphere_volume),
        ("portworxVolume", &mut spec.portworx_volume),
    ];
    let mut sources = sources.into_iter();
    let (field, source) = sources.find_map(|(field, source)| Some((field, source.take()?)))?;
    let texts = |pairs: &lean::Pairs<'_>| -> Value {
        let pairs = pairs.iter();
        pairs.map(|(key, value)| (&**key, &**value)).collect()
    };
    let claim = spec.claim_ref.as_ref();
    let mut object = json!({
        "metadata": {
            "name": metadata.name.as_deref(),
            "labels": texts(&metadata.labels),
            "annotations": texts(&metadata.annotations),
        },
        "spec": {
            "claimRef": { "namespace": claim.and_then(|claim| claim.namespace.as_deref()) },
            field: source,
        },
    });
    let required = spec
        .node_affinity
        .as_ref()
        .and_then(|affinity| affinity.required.as_ref());
    if let Some(selector) = required
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        let terms: Value = selector
            .node_selector_terms
            .iter()
            .map(term_object)
            .collect();
        let affinity = json!({ "required": { "nodeSelectorTerms": terms } });
        spec.insert("nodeAffinity".to_owned(), affinity);
    }
    Some(object)
}

fn term_object(term: &TermWire<'_>) -> Value {
    let expression = |wire: &ExpressionWire<'_>| {
        let values = wire.values.iter().map(|value| &**value).collect::<Value>();
        json!({
            "key": wire.key.as_deref(),
            "operator": wire.operator.as_deref(),
            "values": values,
        })
    };
    let expressions: Value = term.match_expressions.iter().map(expression).collect();
    // What fields are asked for is not known; that there are some is.
    let fields: Value = term.match_fields.iter().map(|_| json!({})).collect();
    json!({ "matchExpressions": expressions, "matchFields": fields })
}

/// A node affinity's terms, if there is one.
type Affinity = Option<Arc<[AffinityTerm]>>;

/// A volume with an in-tree source, in the words of the driver that replaced the plugin, if one did.
fn translated(
    object: &Value,
    spec: &SpecWire<'_>,
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
    let spec = volume.get("spec").unwrap_or(&Value::Null);
    let wire = SpecWire::deserialize(spec).map_err(|error| error.to_string())?;
    let csi = wire.csi.as_ref().map(|csi| csi_source(csi, strings));
    Ok((csi.unwrap_or_default(), terms(&wire, strings)))
}

fn terms(spec: &SpecWire<'_>, strings: &Interner) -> Affinity {
    let selector = spec.node_affinity.as_ref()?.required.as_ref()?;
    let terms = selector.node_selector_terms.iter();
    Some(terms.map(|wire| term(wire, strings)).collect())
}

fn term(wire: &TermWire<'_>, strings: &Interner) -> AffinityTerm {
    let expressions = wire
        .match_expressions
        .iter()
        .map(|wire| AffinityExpression {
            key: interned(&wire.key, strings),
            operator: interned(&wire.operator, strings),
            values: list(&wire.values, strings),
        });
    AffinityTerm {
        expressions: expressions.collect(),
        fields: !wire.match_fields.is_empty(),
    }
}
