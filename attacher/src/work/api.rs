//! The kinds of objects, Secrets as requests carry them, and what failures of requests mean here.
//!
//! Only PATCH writes, and GET for Secrets and for attachments in doubt.

use sidecar::kube::api::Api;
use sidecar::kube::reflect::Resource;

use crate::model::SecretRef;
use crate::plan::attachment::Answer;

/// VolumeAttachments.
pub const ATTACHMENTS: Resource = Resource::new("storage.k8s.io", "v1", "volumeattachments");

/// PersistentVolumes.
pub const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");

/// CSINodes.
pub const NODES: Resource = Resource::new("storage.k8s.io", "v1", "csinodes");

/// The values of a Secret.
pub async fn secret(api: &Api, reference: &SecretRef) -> Answer {
    match api.secret(&reference.namespace, &reference.name).await {
        Ok(values) => texts(values),
        Err(error) => Answer::Refused(error),
    }
}

fn texts(values: std::collections::BTreeMap<String, Vec<u8>>) -> Answer {
    let texts = values
        .into_iter()
        .map(|(key, value)| Ok((key, String::from_utf8(value)?)));
    match texts.collect::<Result<_, std::string::FromUtf8Error>>() {
        Ok(texts) => Answer::Secret(texts),
        Err(_) => Answer::SecretNotText,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_62_values_that_are_not_text_are_told_apart() {
        let values = |bytes: &[u8]| [("a".to_owned(), bytes.to_vec())].into();
        let Answer::Secret(read) = texts(values(b"admin")) else {
            unreachable!("it is text")
        };
        assert_eq!(read["a"], "admin");
        assert!(matches!(texts(values(b"\xff")), Answer::SecretNotText));
    }
}
