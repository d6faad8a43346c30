//! Classes and volumes of the in-tree plugin that the driver replaced: translates a class for the driver, and a volume
//! for the plugin.
//!
//! No other decision knows about plugins. [`migration`] has the translation itself; this decides whether one is due,
//! and whether the API server accepts the result.

use std::borrow::Cow;
use std::fmt;

use migration::{Error, Requirement, TRANSLATOR};
use serde_json::Value;
use sidecar::names::is_label_value;

use super::Driver;
use crate::model::{Class, List, SelectorTerm, Text};

/// The class, translated for the driver: `class` itself, unless it is one of the plugin.
///
/// # Errors
/// The class cannot be translated.
pub fn class<'a>(class: &'a Class, driver: &Driver) -> Result<Cow<'a, Class>, Error> {
    let Some(plugin) = driver
        .plugin()
        .filter(|plugin| *class.provisioner == **plugin)
    else {
        return Ok(Cow::Borrowed(class));
    };
    let text = |text: &str| text.to_owned();
    let requirement = |(key, values): &(Text, List)| Requirement {
        key: text(key),
        values: values.iter().map(|value| text(value)).collect(),
    };
    let terms = class.allowed_topologies.iter();
    let parameters = class.parameters.iter();
    let translated = TRANSLATOR.class_to_csi(
        plugin,
        &migration::Class {
            provisioner: text(&class.provisioner),
            parameters: parameters
                .map(|(key, value)| (text(key), text(value)))
                .collect(),
            allowed_topologies: terms
                .map(|term| term.iter().map(requirement).collect())
                .collect(),
        },
    )?;
    let requirement = |requirement: &Requirement| -> (Text, List) {
        let values = requirement
            .values
            .iter()
            .map(|value| Text::from(value.as_str()));
        (Text::from(requirement.key.as_str()), values.collect())
    };
    let terms = translated.allowed_topologies.iter();
    Ok(Cow::Owned(Class {
        provisioner: translated.provisioner.into(),
        parameters: translated
            .parameters
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect(),
        allowed_topologies: terms
            .map(|term| -> SelectorTerm { term.iter().map(requirement).collect() })
            .collect(),
        ..class.clone()
    }))
}

/// Why a volume that the driver made cannot have a PersistentVolume of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InTreeError {
    /// The volume cannot be translated.
    #[error("{0}")]
    Untranslatable(Error),
    /// The API server would always reject it: the field, its value, and the rule.
    #[error(
        "the driver's response results in a PersistentVolume that the API server rejects: {0} is {1:?}, but must {2}"
    )]
    Refused(String, String, Rule),
}

/// Rule of the API server for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Not empty.
    Filled,
    /// Absent, or not empty.
    FilledIfSet,
    /// Absent, or a byte.
    Byte,
    /// Begins with this prefix.
    Begins(&'static str),
    /// Absent, or one of these.
    OneOf(&'static [&'static str]),
    /// A valid label value.
    Label,
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filled | Self::FilledIfSet => out.write_str("not be empty"),
            Self::Byte => out.write_str("be a number from 0 to 255"),
            Self::Begins(prefix) => write!(out, "begin with {prefix}"),
            Self::OneOf(values) => write!(out, "be one of {}", values.join(", ")),
            Self::Label => out.write_str(
                "be a label's value: at most 63 letters, digits, '-', '_' and '.', with a letter or digit \
                 at both ends",
            ),
        }
    }
}

/// The API server's rules for fields of in-tree sources that a driver's response may violate.
const RULES: &[(&str, &str, Rule)] = &[
    ("awsElasticBlockStore", "volumeID", Rule::Filled),
    ("awsElasticBlockStore", "partition", Rule::Byte),
    ("gcePersistentDisk", "pdName", Rule::Filled),
    ("gcePersistentDisk", "partition", Rule::Byte),
    ("cinder", "volumeID", Rule::Filled),
    ("azureDisk", "diskName", Rule::Filled),
    // For disks of the kind Managed; no other kind has a CSI driver.
    ("azureDisk", "diskURI", Rule::Begins("/subscriptions/")),
    (
        "azureDisk",
        "cachingMode",
        Rule::OneOf(&["None", "ReadOnly", "ReadWrite"]),
    ),
    ("azureFile", "shareName", Rule::Filled),
    ("azureFile", "secretName", Rule::Filled),
    ("azureFile", "secretNamespace", Rule::FilledIfSet),
    ("vsphereVolume", "volumePath", Rule::Filled),
    ("portworxVolume", "volumeID", Rule::Filled),
];

impl Rule {
    fn holds(self, value: &Value) -> bool {
        let text = value.as_str().unwrap_or_default();
        match self {
            Self::Filled => !text.is_empty(),
            Self::FilledIfSet => value.is_null() || !text.is_empty(),
            Self::Byte => value.is_null() || value.as_u64().is_some_and(|number| number < 256),
            Self::Begins(prefix) => text.starts_with(prefix),
            Self::OneOf(values) => value.is_null() || values.contains(&text),
            Self::Label => is_label_value(text),
        }
    }
}

/// Translates a PersistentVolume of the driver into one of the plugin, if the API server accepts it.
///
/// # Errors
/// The volume cannot be translated, or the API server would always reject the result.
pub fn volume(csi: &Value) -> Result<Value, InTreeError> {
    let volume = TRANSLATOR.volume_to_in_tree(csi);
    let volume = volume.map_err(InTreeError::Untranslatable)?;
    let refused = |path: String, value: &Value, rule| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Err(InTreeError::Refused(path, text, rule))
    };
    for (source, field, rule) in RULES {
        if let Some(source_is) = volume.pointer(&format!("/spec/{source}")) {
            let value = source_is.get(field).unwrap_or(&Value::Null);
            if !rule.holds(value) {
                return refused(format!("spec.{source}.{field}"), value, *rule);
            }
        }
    }
    let labels = volume
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        if !Rule::Label.holds(value) {
            return refused(format!("metadata.labels[{key}]"), value, Rule::Label);
        }
    }
    Ok(volume)
}

/// The volume handle of the plugin's PersistentVolume: for some drivers it carries less than the driver's own handle,
/// or differs from it.
#[must_use]
pub fn handle(in_tree: &Value) -> Option<Text> {
    let csi = TRANSLATOR.volume_to_csi(in_tree).ok()?;
    let handle = csi
        .pointer("/spec/csi/volumeHandle")
        .and_then(Value::as_str);
    handle.map(Text::from)
}

/// The driver that serves volumes of classes with this provisioner.
#[must_use]
pub fn driver_of(provisioner: &str) -> &str {
    TRANSLATOR
        .plugin(provisioner)
        .map_or(provisioner, |driver| driver.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::testing::{class as fixture, driver as native};

    fn driver(name: &str) -> Driver {
        Driver {
            name: name.into(),
            ..native()
        }
    }

    #[test]
    fn m_16_and_17_a_class_of_the_driver_is_not_translated() {
        let ebs = driver("ebs.csi.aws.com");
        let of = |provisioner: &str| Class {
            provisioner: provisioner.into(),
            parameters: [("zone", "a"), ("fsType", "x")].into_iter().collect(),
            ..fixture()
        };
        for provisioner in ["ebs.csi.aws.com", "kubernetes.io/gce-pd", "x"] {
            let class_is = of(provisioner);
            let translated = class(&class_is, &ebs).unwrap();
            assert!(matches!(&translated, Cow::Borrowed(_)), "{provisioner}");
        }
        let in_tree = of("kubernetes.io/aws-ebs");
        let translated = class(&in_tree, &ebs).unwrap();
        assert_eq!(
            translated.parameters.get("csi.storage.k8s.io/fstype"),
            Some("x")
        );
        assert_eq!(translated.parameters.iter().count(), 1);
        let terms: Vec<_> = translated
            .allowed_topologies
            .iter()
            .flat_map(|term| term.iter())
            .collect();
        let zone = (
            Text::from("topology.ebs.csi.aws.com/zone"),
            List::from([Text::from("a")]),
        );
        assert_eq!(terms, [&zone]);
        assert_eq!(translated.uid, in_tree.uid);
        assert_eq!(driver_of("kubernetes.io/aws-ebs"), "ebs.csi.aws.com");
        assert_eq!(driver_of("test-driver"), "test-driver");
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "rows of a table")]
    fn m_58_to_61_what_the_api_server_would_refuse() {
        let csi = |driver: &str, handle: &str, more: &[(&str, &str)]| {
            let attributes: BTreeMap<_, _> = more.iter().copied().collect();
            json!({
                "metadata": {"name": "pv", "annotations": {}},
                "spec": {"csi": {"driver": driver, "volumeHandle": handle, "volumeAttributes": attributes}},
            })
        };
        const DISK: &str = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/n";
        const AZURE: &str = "disk.csi.azure.com";
        const EBS: &str = "ebs.csi.aws.com";
        const VSPHERE: &str = "csi.vsphere.vmware.com";
        const FILE: &str = "file.csi.azure.com";
        let rows: [(&str, Value, Option<&str>); 12] = [
            ("M-39", csi(EBS, "vol-1", &[("partition", "255")]), None),
            (
                "M-60",
                csi(EBS, "vol-1", &[("partition", "256")]),
                Some("spec.awsElasticBlockStore.partition"),
            ),
            (
                "M-60",
                csi(EBS, "vol-1", &[("partition", "-1")]),
                Some("partition"),
            ),
            (
                "M-56",
                csi(
                    AZURE,
                    &DISK.replace("resourceGroups", "resourcegroups"),
                    &[],
                ),
                None,
            ),
            (
                "M-59",
                csi(AZURE, "https://a.blob.core.windows.net/vhds/n.vhd", &[]),
                Some(""),
            ),
            (
                "M-59",
                csi(
                    AZURE,
                    &DISK.replace("/subscriptions", "/Subscriptions"),
                    &[],
                ),
                Some(""),
            ),
            (
                "caching",
                csi(AZURE, DISK, &[("cachingMode", "readonly")]),
                Some("one of None, ReadOnly"),
            ),
            (
                "M-58",
                csi(VSPHERE, "uuid", &[]),
                Some("spec.vsphereVolume.volumePath"),
            ),
            (
                "M-47",
                csi(VSPHERE, "uuid", &[("initialvolumefilepath", "p")]),
                None,
            ),
            ("M-46", csi(FILE, "rg#acc#sh#uuid", &[]), None),
            (
                "account",
                csi(FILE, "rg#acc##uuid", &[]),
                Some("spec.azureFile.shareName"),
            ),
            (
                "namespace",
                csi(FILE, "rg#acc#sh#uuid", &[("secretnamespace", "")]),
                Some("secretNamespace"),
            ),
        ];
        for (row, csi, refused) in rows {
            let found = volume(&csi).map_err(|error| error.to_string());
            match refused {
                None => assert!(found.is_ok(), "{row}: {found:?}"),
                Some(text) => assert!(
                    found.as_ref().is_err_and(|error| error.contains(text)),
                    "{row}: {found:?}"
                ),
            }
        }
        for (label, fits) in [
            ("", true),
            ("a", true),
            ("us-east-1a__us-east-1b", true),
            ("-a", false),
            ("a_", false),
            ("a b", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(is_label_value(label), fits, "{label:?}");
        }
        assert!(
            is_label_value(&"a".repeat(63)) && !is_label_value(&"a".repeat(64)),
            "M-61"
        );
    }

    #[test]
    fn what_a_persistent_volume_says_of_the_handle() {
        let csi = json!({
            "metadata": {"name": "pv", "annotations": {}},
            "spec": {"csi": {
                "driver": "csi.vsphere.vmware.com", "volumeHandle": "uuid",
                "volumeAttributes": {"initialvolumefilepath": "[ds] a.vmdk"},
            }},
        });
        let in_tree = volume(&csi).unwrap();
        assert_eq!(handle(&in_tree).as_deref(), Some("[ds] a.vmdk"));
        assert_eq!(handle(&csi), None);
    }
}
