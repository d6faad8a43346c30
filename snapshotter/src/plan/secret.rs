//! Which Secret a call carries.
//!
//! A misread name would be another user's Secret.

use sidecar::secret;
use sidecar::snapshot::group;
use sidecar::snapshot::secret::Unclear;

use super::request::{LIST_SECRET_NAME, LIST_SECRET_NAMESPACE};
use crate::model::{Content, Kind, Pairs, SecretRef, Text};

/// The annotations reference a Secret with an empty name or namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unnamed;

/// The Secret that the content's annotations reference.
///
/// # Errors
/// One of the two is empty.
pub fn annotated(content: &Content) -> Result<Option<SecretRef>, Unnamed> {
    match content.secret.as_deref() {
        Some(secret) if secret.name.is_empty() || secret.namespace.is_empty() => Err(Unnamed),
        secret => Ok(secret.cloned()),
    }
}

/// The parameters by which a class references the Secret for look-ups.
struct Template {
    name: &'static str,
    namespace: &'static str,
    /// The only template token.
    token: &'static str,
    /// The noun in texts.
    called: &'static str,
}

const LISTING: Template = Template {
    name: LIST_SECRET_NAME,
    namespace: LIST_SECRET_NAMESPACE,
    token: "volumesnapshotcontent.name",
    called: "SnapshotterList",
};

const GROUP_GETTING: Template = Template {
    name: group::GET_SECRET_NAME_PARAMETER,
    namespace: group::GET_SECRET_NAMESPACE_PARAMETER,
    token: group::CONTENT_NAME_TOKEN,
    called: "GroupSnapshotterGet",
};

/// The Secret for ListSnapshots and GetSnapshot, or for GetVolumeGroupSnapshot, that a class with
/// these parameters references for the content.
///
/// # Errors
/// The ambiguity.
pub fn listing(
    kind: Kind,
    parameters: &Pairs,
    content: &Text,
) -> Result<Option<SecretRef>, Unclear> {
    let Template {
        name,
        namespace,
        token,
        called,
    } = match kind {
        Kind::Single => LISTING,
        Kind::Group => GROUP_GETTING,
    };
    let parameter = |key| secret::Template {
        key,
        text: parameters.get(key),
    };
    let value = |_, asked: &str| (asked == token).then_some(&**content);
    secret::resolve(parameter(name), parameter(namespace), value)
        .map_err(|why| Unclear { called, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_77_s_78_the_secret_of_a_list() {
        let tokens = |text: &str| format!("error resolving value \"{text}\": invalid tokens: ");
        let listed = |name: &str, namespace: &str| {
            let keys = [(LIST_SECRET_NAME, name), (LIST_SECRET_NAMESPACE, namespace)];
            let pairs: Pairs = keys
                .into_iter()
                .filter(|(_, value)| *value != "-")
                .collect();
            let found = listing(Kind::Single, &pairs, &"pp".into());
            let found =
                found.map(|found| found.map(|found| format!("{}/{}", found.namespace, found.name)));
            found.map_err(|unclear| unclear.to_string())
        };
        const T: &str = "failed to get name and namespace template from params: ";
        let half = "either name and namespace for SnapshotterList secrets specified, Both must be specified";
        let empty = "SnapshotterList secrets specified in parameters but value of either namespace or name is empty";
        let rows = [
            ("S-77", "l-${volumesnapshotcontent.name}", "ns2", Ok(Some("ns2/l-pp".to_owned()))),
            ("S-77, $x", "$$x", "ns2", Err(tokens("$$x") + "[\"$\"]")),
            ("none", "-", "-", Ok(None)),
            (
                "S-78",
                "${volumesnapshot.name}",
                "ns2",
                Err(tokens("${volumesnapshot.name}") + "[\"volumesnapshot.name\"]"),
            ),
            (
                "3.11, two",
                "${b}${a}",
                "ns2",
                Err(tokens("${b}${a}") + "[\"a\" \"b\"]"),
            ),
            ("3.11, half", "a", "-", Err(format!("{T}{half}"))),
            ("3.11, half", "-", "a", Err(format!("{T}{half}"))),
            ("3.11, empty", "", "a", Err(format!("{T}{empty}"))),
            (
                "3.11, namespace",
                "a",
                "Ns",
                Err("\"Ns\" is not a valid namespace name".to_owned()),
            ),
            (
                "3.11, name",
                "A-${volumesnapshotcontent.name}",
                "ns",
                Err(
                    "\"A-${volumesnapshotcontent.name}\" resolved to \"A-pp\" which is not a valid secret name"
                        .to_owned(),
                ),
            ),
        ];
        for (row, name, namespace, expected) in rows {
            assert_eq!(listed(name, namespace), expected, "{row}");
        }
    }
}
