//! Reads objects out of requests, for the model API server.

use migration::TRANSLATOR;
use serde_json::Value;
use sidecar::node_selector::{Requirement, Term};

use crate::keys::{DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, PROVISIONED_BY};
use crate::model::{
    ClaimRef, Csi, InTree, List, Owner, Reclaim, Source, Text, VolumeDetail, VolumePhase,
};

pub(super) fn texts(list: &Value) -> List {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(Text::from).collect()
}

/// The PersistentVolume in a POST.
pub(super) fn read_volume(object: &Value) -> VolumeDetail {
    let text = |value: &Value| value.as_str().map(Text::from);
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    let claim = &spec["claimRef"];
    let source = read_source(object);
    let in_tree = matches!(source, Source::InTree(_));
    let driver = match &source {
        Source::Csi(csi) => Some(csi.driver.clone()),
        Source::InTree(source) => Some(source.driver.into()),
        Source::Other => None,
    };
    VolumeDetail {
        name: text(&metadata["name"]).unwrap(),
        finalizers: texts(&metadata["finalizers"]),
        owner: Owner {
            provisioned_by: text(&metadata["annotations"][PROVISIONED_BY]),
            migrated_to: None,
            csi_driver: driver,
            in_tree,
        },
        phase: VolumePhase::Pending,
        reclaim: Reclaim::parse(
            spec["persistentVolumeReclaimPolicy"]
                .as_str()
                .unwrap_or_default(),
        ),
        class: text(&spec["storageClassName"]).unwrap_or_default(),
        claim: Some(ClaimRef {
            namespace: text(&claim["namespace"]).unwrap(),
            name: text(&claim["name"]).unwrap(),
            uid: text(&claim["uid"]).unwrap(),
        }),
        source,
        deletion_secret_name: text(&metadata["annotations"][DELETION_SECRET_NAME]),
        deletion_secret_namespace: text(&metadata["annotations"][DELETION_SECRET_NAMESPACE]),
        affinity: read_affinity(&spec["nodeAffinity"]),
        ..VolumeDetail::default()
    }
}

fn read_source(object: &Value) -> Source {
    let csi = |object: &Value| {
        let text = |field: &str| Text::from(object["spec"]["csi"][field].as_str().unwrap());
        Csi {
            driver: text("driver"),
            handle: text("volumeHandle"),
        }
    };
    match TRANSLATOR.of_volume(object) {
        None => Source::Csi(csi(object)),
        Some(plugin) => Source::InTree(Box::new(InTree {
            driver: plugin.name,
            csi: { TRANSLATOR.volume_to_csi(object) }
                .map(|object| csi(&object))
                .map_err(|error| error.to_string().into()),
        })),
    }
}

fn read_affinity(affinity: &Value) -> Option<std::sync::Arc<[Term]>> {
    let terms = affinity["required"]["nodeSelectorTerms"].as_array()?;
    let expression = |expression: &Value| Requirement {
        key: expression["key"].as_str().unwrap_or_default().into(),
        operator: expression["operator"].as_str().unwrap_or_default().into(),
        values: texts(&expression["values"]),
    };
    let term = |term: &Value| Term {
        expressions: { term["matchExpressions"].as_array().into_iter().flatten() }
            .map(expression)
            .collect(),
        fields: Vec::new(),
    };
    Some(terms.iter().map(term).collect())
}
