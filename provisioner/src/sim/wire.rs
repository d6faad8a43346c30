//! Objects as the model API server reads them out of requests.
//!
//! Separate from the server, because only here JSON is taken apart.

use serde_json::Value;

use crate::keys::{DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, PROVISIONED_BY};
use crate::model::{
    AffinityExpression, AffinityTerm, ClaimRef, Csi, List, Owner, Reclaim, Source, Text,
    VolumeDetail, VolumePhase,
};

pub(super) fn texts(list: &Value) -> List {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(Text::from).collect()
}

/// What a POST asks for.
pub(super) fn read_volume(object: &Value) -> VolumeDetail {
    let text = |value: &Value| value.as_str().map(Text::from);
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    let claim = &spec["claimRef"];
    let driver = text(&spec["csi"]["driver"]);
    VolumeDetail {
        name: text(&metadata["name"]).unwrap(),
        finalizers: texts(&metadata["finalizers"]),
        owner: Owner {
            provisioned_by: text(&metadata["annotations"][PROVISIONED_BY]),
            migrated_to: None,
            csi_driver: driver.clone(),
            in_tree: false,
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
        source: Source::Csi(Csi {
            driver: driver.unwrap(),
            handle: text(&spec["csi"]["volumeHandle"]).unwrap(),
        }),
        deletion_secret_name: text(&metadata["annotations"][DELETION_SECRET_NAME]),
        deletion_secret_namespace: text(&metadata["annotations"][DELETION_SECRET_NAMESPACE]),
        affinity: read_affinity(&spec["nodeAffinity"]),
        ..VolumeDetail::default()
    }
}

fn read_affinity(affinity: &Value) -> Option<std::sync::Arc<[AffinityTerm]>> {
    let terms = affinity["required"]["nodeSelectorTerms"].as_array()?;
    let expression = |expression: &Value| AffinityExpression {
        key: expression["key"].as_str().unwrap_or_default().into(),
        operator: expression["operator"].as_str().unwrap_or_default().into(),
        values: texts(&expression["values"]),
    };
    let term = |term: &Value| AffinityTerm {
        expressions: { term["matchExpressions"].as_array().into_iter().flatten() }
            .map(expression)
            .collect(),
        fields: false,
    };
    Some(terms.iter().map(term).collect())
}
