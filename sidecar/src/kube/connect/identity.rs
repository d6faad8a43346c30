//! The contents of a client certificate's files, to notice that they were replaced.

use std::fs;

use ::kube::config::AuthInfo;

/// Certificate and key, where they are in files. Compared as a whole: renewals keep sizes, and the
/// file times of a projected volume mean nothing.
#[derive(PartialEq, Eq)]
pub(super) struct Identity {
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl Identity {
    /// Reads the current contents; an unreadable file counts as absent.
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
