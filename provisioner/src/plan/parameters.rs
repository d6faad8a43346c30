//! Parameters of a class: those that the driver gets, and the file system among them.
//!
//! The keys that the sidecars keep to themselves are a contract with every driver and every class ever written.

use std::collections::BTreeMap;

use super::secret;
use crate::keys::PARAMETER_PREFIX;
use crate::model::{Claim, Pairs};

/// Key of the file system.
const FS_TYPE: &str = "csi.storage.k8s.io/fstype";

/// Deprecated key of the file system, in any case; the driver gets this parameter nevertheless.
const FORMER_FS_TYPE: &str = "fstype";

/// Error in the parameters of a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A key has the sidecars' prefix, and no sidecar knows it.
    #[error(
        "the StorageClass has the unknown parameter {0:?}: keys that begin with \
         csi.storage.k8s.io/ are not for drivers; correct or remove it"
    )]
    Unknown(String),
    /// Several keys name the file system.
    #[error("the StorageClass names the file system under several keys: {}; keep one", .0.join(", "))]
    SeveralFsTypes(Vec<String>),
}

/// The parameters that the driver gets.
///
/// # Errors
/// Names the first key with the sidecars' prefix that no sidecar knows.
pub fn for_driver(parameters: &Pairs) -> Result<BTreeMap<String, String>, Error> {
    let mut kept = BTreeMap::new();
    for (key, value) in parameters.iter() {
        if !key.starts_with(PARAMETER_PREFIX) {
            kept.insert(key.to_owned(), value.to_owned());
        } else if key != FS_TYPE && !secret::is_key(key) {
            return Err(Error::Unknown(key.to_owned()));
        }
    }
    Ok(kept)
}

/// Adds the parameters of `--extra-create-metadata`.
pub fn add_metadata(parameters: &mut BTreeMap<String, String>, claim: &Claim, volume: &str) {
    let metadata = [
        ("csi.storage.k8s.io/pvc/name", &*claim.name),
        ("csi.storage.k8s.io/pvc/namespace", &*claim.namespace),
        ("csi.storage.k8s.io/pv/name", volume),
    ];
    let metadata = metadata.into_iter();
    parameters.extend(metadata.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

/// The file system, empty where neither the class nor `default` names one.
///
/// # Errors
/// When several keys of the class name one, even if it is the same.
pub fn fs_type<'a>(parameters: &'a Pairs, default: &'a str) -> Result<&'a str, Error> {
    let counts = |key: &str| key == FS_TYPE || key.eq_ignore_ascii_case(FORMER_FS_TYPE);
    let named: Vec<(&str, &str)> = parameters.iter().filter(|(key, _)| counts(key)).collect();
    match *named {
        [] | [(_, "")] => Ok(default),
        [(_, named)] => Ok(named),
        _ => {
            let keys = named.iter().map(|(key, _)| (*key).to_owned());
            Err(Error::SeveralFsTypes(keys.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().copied().collect()
    }

    #[test]
    fn rows_65_to_70_file_systems() {
        let several = Err(());
        let rows = [
            ("65", &[("fstype", "ext3")][..], "", Ok("ext3")),
            ("66", &[(FS_TYPE, "ext3")], "", Ok("ext3")),
            ("67", &[(FS_TYPE, "ext3"), ("fstype", "ext3")], "", several),
            ("67 case", &[("fstype", "a"), ("FSType", "a")], "", several),
            ("67 empty", &[("fstype", ""), ("FsType", "a")], "", several),
            ("68", &[], "ext4", Ok("ext4")),
            ("69", &[(FS_TYPE, "")], "ext4", Ok("ext4")),
            ("70", &[], "", Ok("")),
            (
                "case of the newer key",
                &[("CSI.storage.k8s.io/fstype", "a")],
                "d",
                Ok("d"),
            ),
        ];
        for (row, parameters, default, expected) in rows {
            let parameters = pairs(parameters);
            let found = fs_type(&parameters, default).map_err(|_| ());
            assert_eq!(found, expected, "{row}");
        }
    }

    #[test]
    fn rows_65_66_71_to_74_what_the_driver_gets() {
        let kept = |parameters: &[(&str, &str)]| {
            let kept = for_driver(&pairs(parameters))?;
            Ok(kept.into_keys().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(kept(&[("fstype", "ext3")]), Ok("fstype".into()), "65");
        assert_eq!(kept(&[(FS_TYPE, "ext3")]), Ok(String::new()), "66");
        let bim = "csi.storage.k8s.io/bim";
        assert_eq!(kept(&[(bim, "x")]), Err(Error::Unknown(bim.into())), "71");
        assert_eq!(kept(&[("foo", FS_TYPE)]), Ok("foo".into()), "72");
        let mut all = vec![("bim".to_owned(), "baz"), (FS_TYPE.to_owned(), "x")];
        for purpose in [
            "secret",
            "provisioner-secret",
            "controller-publish-secret",
            "node-stage-secret",
            "node-publish-secret",
            "controller-expand-secret",
            "node-expand-secret",
            "controller-modify-secret",
        ] {
            for part in ["name", "namespace"] {
                all.push((format!("csi.storage.k8s.io/{purpose}-{part}"), "x"));
            }
        }
        assert_eq!(all.len(), 18, "17 known keys and one for the driver");
        let all: Vec<(&str, &str)> = all
            .iter()
            .map(|(key, value)| (key.as_str(), *value))
            .collect();
        assert_eq!(kept(&all), Ok("bim".into()), "73");
        let former = [
            ("csiProvisionerSecretName", "n"),
            ("csiNodeStageSecretNamespace", "m"),
        ];
        assert_eq!(
            kept(&former),
            Ok("csiNodeStageSecretNamespace csiProvisionerSecretName".into()),
            "74"
        );
        let metadata = [("csi.storage.k8s.io/pvc/name", "x")];
        assert!(kept(&metadata).is_err(), "section 5.4");
    }

    #[test]
    fn row_75_extra_metadata() {
        let claim = Claim {
            namespace: "ns1".into(),
            name: "c1".into(),
            ..Claim::default()
        };
        let mut parameters = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        add_metadata(&mut parameters, &claim, "pvc-U");
        let expected = [
            ("a", "b"),
            ("csi.storage.k8s.io/pv/name", "pvc-U"),
            ("csi.storage.k8s.io/pvc/name", "c1"),
            ("csi.storage.k8s.io/pvc/namespace", "ns1"),
        ];
        assert!(
            parameters
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .eq(expected)
        );
    }
}
