//! StorageClasses and VolumeAttributesClasses on the wire.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, Meta, Object, interned, list, nullable, own, pairs, shared};
use sidecar::kube::objects::class;

use crate::model::{AttributesClass, BindingMode, Class, SelectorTerm};

/// A StorageClass on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClassWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: Meta<'a>,
    #[serde(borrow)]
    provisioner: Option<lean::Text<'a>>,
    #[serde(borrow)]
    parameters: lean::Pairs<'a>,
    #[serde(borrow)]
    reclaim_policy: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    mount_options: Vec<lean::Text<'a>>,
    #[serde(borrow)]
    volume_binding_mode: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    allowed_topologies: Vec<TermWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TermWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    match_label_expressions: Vec<ExpressionWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionWire<'a> {
    #[serde(borrow)]
    key: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    values: Vec<lean::Text<'a>>,
}

impl Object for ClassWire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

impl Record for Class {
    type Wire<'a> = ClassWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let terms = wire.allowed_topologies.iter();
        Some(Self {
            name: own(&wire.metadata.name),
            uid: own(&wire.metadata.uid),
            provisioner: interned(&wire.provisioner, strings),
            parameters: pairs(&wire.parameters, strings),
            reclaim_policy: shared(&wire.reclaim_policy, strings),
            mount_options: list(&wire.mount_options, strings),
            binding_mode: BindingMode::parse(
                wire.volume_binding_mode.as_deref().unwrap_or_default(),
            ),
            allowed_topologies: terms.map(|wire| term(wire, strings)).collect(),
        })
    }
}

fn term(wire: &TermWire<'_>, strings: &Interner) -> SelectorTerm {
    let expressions = wire.match_label_expressions.iter();
    expressions
        .map(|wire| (interned(&wire.key, strings), list(&wire.values, strings)))
        .collect()
}

impl Record for AttributesClass {
    type Wire<'a> = class::AttributesClass<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        Some(Self {
            name: own(&wire.metadata.name),
            driver: interned(&wire.driver_name, strings),
            parameters: pairs(&wire.parameters, strings),
        })
    }
}
