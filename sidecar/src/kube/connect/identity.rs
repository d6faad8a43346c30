//! What the files of a client certificate contain, to see that they were replaced.

use std::fs;

use ::kube::config::AuthInfo;

/// Certificate and key, where they are in files. Compared whole: renewals keep sizes, and a
/// projected volume's times say nothing.
#[derive(PartialEq, Eq)]
pub(super) struct Identity {
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl Identity {
    /// What is there now; a file that cannot be read is none.
    pub(super) fn read(auth: &AuthInfo) -> Self {
        let read = |path: &Option<String>, inline: bool| {
            let path = path.as_ref().filter(|_| !inline)?;
            fs::read(path).ok()
        };
        Self {
            certificate: read(
                &auth.client_certificate,
                auth.client_certificate_data.is_some(),
            ),
            key: read(&auth.client_key, auth.client_key_data.is_some()),
        }
    }
}
