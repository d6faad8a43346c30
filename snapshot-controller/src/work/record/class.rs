//! VolumeSnapshotClasses on the wire.

use serde::Deserialize;
use serde_json::value::RawValue;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, Meta, Object, interned, nullable};
use sidecar::snapshot::{
    ALLOWED_TOPOLOGIES, DEFAULT_CLASS, SECRET_NAME_PARAMETER, SECRET_NAMESPACE_PARAMETER,
};

use crate::model::{Class, Policy, Text};

/// A VolumeSnapshotClass on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClassWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: Meta<'a>,
    #[serde(borrow)]
    driver: Option<lean::Text<'a>>,
    #[serde(borrow)]
    deletion_policy: Option<lean::Text<'a>>,
    #[serde(borrow)]
    parameters: lean::Pairs<'a>,
    #[serde(borrow)]
    allowed_topologies: Option<&'a RawValue>,
}

impl Object for ClassWire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

/// Annotation and parameter names of a class.
pub(super) struct Words {
    pub(super) default: &'static str,
    pub(super) secret_name: &'static str,
    pub(super) secret_namespace: &'static str,
}

impl Record for Class {
    type Wire<'a> = ClassWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let words = Words {
            default: DEFAULT_CLASS,
            secret_name: SECRET_NAME_PARAMETER,
            secret_namespace: SECRET_NAMESPACE_PARAMETER,
        };
        Some(read(&wire, &words, strings))
    }
}

pub(super) fn read(wire: &ClassWire<'_>, words: &Words, strings: &Interner) -> Class {
    let parameter = |name| wire.parameters.get(name).map(|text| Text::from(&**text));
    let annotation = |name| wire.metadata.annotations.get(name).map(|text| &**text);
    let topologies = wire.allowed_topologies.map(RawValue::get);
    let topologies = topologies.or_else(|| annotation(ALLOWED_TOPOLOGIES));
    Class {
        driver: interned(&wire.driver, strings),
        policy: Policy::new(wire.deletion_policy.as_deref().unwrap_or_default()),
        default: annotation(words.default) == Some("true"),
        secret_name: parameter(words.secret_name),
        secret_namespace: parameter(words.secret_namespace),
        topologies: topologies.map(Text::from),
    }
}
