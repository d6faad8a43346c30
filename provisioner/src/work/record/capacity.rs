//! CSIStorageCapacities on the wire.
//!
//! More of their metadata is read than of other kinds, since they are written back.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, Meta, Object, interned, list, nullable, own, pairs, shared};
use sidecar::kube::objects::quantity;

use crate::model::{NodeTopology, OwnerReference, StorageCapacity, Text};

/// A CSIStorageCapacity on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageCapacityWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: FullMeta<'a>,
    #[serde(borrow)]
    storage_class_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    node_topology: Option<SelectorWire<'a>>,
    #[serde(borrow)]
    capacity: Option<lean::Text<'a>>,
    #[serde(borrow)]
    maximum_volume_size: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(from = "MetaWire<'a>", bound(deserialize = "'de: 'a"))]
struct FullMeta<'a> {
    lean: Meta<'a>,
    generate_name: Option<lean::Text<'a>>,
    owners: Vec<OwnerWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetaWire<'a> {
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    generate_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    namespace: Option<lean::Text<'a>>,
    #[serde(borrow)]
    uid: Option<lean::Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<lean::Text<'a>>,
    #[serde(borrow)]
    labels: lean::Pairs<'a>,
    #[serde(borrow)]
    annotations: lean::Pairs<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    finalizers: Vec<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    owner_references: Vec<OwnerWire<'a>>,
}

impl<'a> From<MetaWire<'a>> for FullMeta<'a> {
    fn from(wire: MetaWire<'a>) -> Self {
        Self {
            lean: Meta {
                name: wire.name,
                namespace: wire.namespace,
                uid: wire.uid,
                resource_version: wire.resource_version,
                labels: wire.labels,
                annotations: wire.annotations,
                finalizers: wire.finalizers,
                ..Meta::default()
            },
            generate_name: wire.generate_name,
            owners: wire.owner_references,
        }
    }
}

/// An entry of `metadata.ownerReferences` on the wire, in objects of any kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnerWire<'a> {
    #[serde(borrow)]
    api_version: Option<lean::Text<'a>>,
    #[serde(borrow)]
    kind: Option<lean::Text<'a>>,
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    uid: Option<lean::Text<'a>>,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

impl OwnerWire<'_> {
    fn read(&self, strings: &Interner) -> OwnerReference {
        OwnerReference {
            api_version: interned(&self.api_version, strings),
            kind: interned(&self.kind, strings),
            name: interned(&self.name, strings),
            uid: interned(&self.uid, strings),
            controller: self.controller,
            block_deletion: self.block_owner_deletion,
        }
    }
}

/// `metadata.uid` and `metadata.ownerReferences` of an object of any kind.
///
/// # Errors
/// The text is no object.
pub fn read_owned(
    json: &str,
    strings: &Interner,
) -> Result<(Text, Vec<OwnerReference>), serde_json::Error> {
    #[derive(Deserialize)]
    struct Owned<'a> {
        #[serde(borrow)]
        metadata: FullMeta<'a>,
    }
    let Owned { metadata } = serde_json::from_str(json)?;
    let owners = metadata.owners.iter();
    let owners = owners.map(|owner| owner.read(strings)).collect();
    Ok((own(&metadata.lean.uid), owners))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectorWire<'a> {
    #[serde(borrow)]
    match_labels: lean::Pairs<'a>,
    #[serde(deserialize_with = "nullable")]
    match_expressions: Vec<serde::de::IgnoredAny>,
}

impl Object for StorageCapacityWire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata.lean
    }
}

impl Record for StorageCapacity {
    type Wire<'a> = StorageCapacityWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let meta = &wire.metadata.lean;
        let owners = wire.metadata.owners.iter();
        Some(Self {
            name: own(&meta.name),
            uid: own(&meta.uid),
            version: meta.version(),
            generate_name: shared(&wire.metadata.generate_name, strings),
            labels: pairs(&meta.labels, strings),
            annotations: pairs(&meta.annotations, strings),
            finalizers: list(&meta.finalizers, strings),
            owners: owners.map(|owner| owner.read(strings)).collect(),
            class: interned(&wire.storage_class_name, strings),
            topology: match &wire.node_topology {
                None => NodeTopology::None,
                Some(selector) if selector.match_expressions.is_empty() => {
                    NodeTopology::Labels(pairs(&selector.match_labels, strings))
                }
                Some(_) => NodeTopology::Other,
            },
            capacity: quantity(wire.capacity.as_ref()),
            maximum: quantity(wire.maximum_volume_size.as_ref()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Pairs, Quantity};

    fn read(json: &str) -> StorageCapacity {
        let wire = serde_json::from_str(json).unwrap();
        StorageCapacity::from_wire(wire, &Interner::default()).unwrap()
    }

    #[test]
    fn everything_an_update_must_carry_is_read() {
        let object = read(
            r#"{"apiVersion":"storage.k8s.io/v1","kind":"CSIStorageCapacity","metadata":{
                "name":"csisc-1","generateName":"csisc-","namespace":"ns","uid":"u","resourceVersion":"7",
                "labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["f"],"managedFields":[{}],
                "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ru",
                  "controller":true,"blockOwnerDeletion":false},{"kind":"X"}]},
                "storageClassName":"sc1","nodeTopology":{"matchLabels":{"zone":"1"}},
                "capacity":"1Gi","maximumVolumeSize":"1Mi"}"#,
        );
        let pairs = |key: &str, value: &str| Pairs::from_iter([(key, value)]);
        let expected = StorageCapacity {
            name: "csisc-1".into(),
            uid: "u".into(),
            version: 7,
            generate_name: Some("csisc-".into()),
            labels: pairs("a", "b"),
            annotations: pairs("c", "d"),
            finalizers: ["f".into()].into(),
            owners: [
                OwnerReference {
                    api_version: "apps/v1".into(),
                    kind: "ReplicaSet".into(),
                    name: "r".into(),
                    uid: "ru".into(),
                    controller: Some(true),
                    block_deletion: Some(false),
                },
                OwnerReference {
                    kind: "X".into(),
                    ..OwnerReference::default()
                },
            ]
            .into(),
            class: "sc1".into(),
            topology: NodeTopology::Labels(pairs("zone", "1")),
            capacity: Some(Quantity::from_bytes(1 << 30)),
            maximum: Some(Quantity::from_bytes(1 << 20)),
        };
        assert_eq!(object, expected);
    }

    #[test]
    fn selectors() {
        let none = NodeTopology::Labels(Pairs::default());
        for (json, expected) in [
            ("{}", NodeTopology::None),
            (r#"{"nodeTopology":null}"#, NodeTopology::None),
            (r#"{"nodeTopology":{}}"#, none.clone()),
            (
                r#"{"nodeTopology":{"matchLabels":null,"matchExpressions":null}}"#,
                none,
            ),
            (
                r#"{"nodeTopology":{"matchExpressions":[{"key":"a","operator":"Exists"}]}}"#,
                NodeTopology::Other,
            ),
        ] {
            assert_eq!(read(json).topology, expected, "{json}");
        }
    }
}
