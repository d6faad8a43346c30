//! The rows of `driver.publishes`: the programs ask the driver for `PUBLISH_UNPUBLISH_VOLUME`, whatever the CSIDriver
//! says, and are not ready without the permissions that it makes them need.

/// As the table of permissions of all others.
#[rustfmt::skip]
pub(super) const PERMISSIONS: &[(&[&str], &str, &[&str])] = &[
    (&["driver.publishes=true", "driver.attachRequired=false"], "provisioner", &[
        "list volumeattachments.storage.k8s.io", "watch volumeattachments.storage.k8s.io",
    ]),
    (&["driver.publishes=true", "driver.attachRequired=false", "attacher.events=false"], "attacher", &[
        "get persistentvolumes", "list persistentvolumes", "watch persistentvolumes", "patch persistentvolumes",
        "list csinodes.storage.k8s.io", "watch csinodes.storage.k8s.io",
    ]),
];
