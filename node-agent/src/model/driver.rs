//! The CSIDriver object.

use serde::Deserialize;

use super::volume::Lifecycle;

/// `fsGroupPolicy`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupPolicy {
    /// `None`
    Never,
    /// `File`
    Always,
    /// `ReadWriteOnceWithFSType`, the default.
    #[default]
    ByModeAndType,
}

/// One entry of `tokenRequests`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenRequest {
    /// `audience`, empty for the API server's own.
    pub audience: String,
    /// `expirationSeconds`
    pub expiration_seconds: Option<i64>,
}

/// A CSIDriver object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiDriver {
    /// `attachRequired`
    pub attach: bool,
    /// `podInfoOnMount`
    pub pod_info: bool,
    /// `requiresRepublish`
    pub republish: bool,
    /// `seLinuxMount`
    pub se_linux_mount: bool,
    /// `serviceAccountTokenInSecrets`
    pub tokens_in_secrets: bool,
    /// `tokenRequests`
    pub tokens: Vec<TokenRequest>,
    /// `volumeLifecycleModes`; empty means persistent only.
    pub lifecycles: Vec<String>,
    /// `fsGroupPolicy`
    pub group_policy: GroupPolicy,
}

#[derive(Default, Deserialize)]
struct Wire {
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    attach_required: Option<bool>,
    pod_info_on_mount: Option<bool>,
    requires_republish: Option<bool>,
    #[serde(rename = "seLinuxMount")]
    se_linux_mount: Option<bool>,
    service_account_token_in_secrets: Option<bool>,
    token_requests: Option<Vec<TokenRequest>>,
    volume_lifecycle_modes: Option<Vec<String>>,
    fs_group_policy: Option<String>,
}

impl CsiDriver {
    /// Reads a CSIDriver.
    ///
    /// # Errors
    /// The JSON is not a CSIDriver.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let spec = serde_json::from_str::<Wire>(json)?.spec;
        Ok(Self {
            attach: spec.attach_required.unwrap_or(true),
            pod_info: spec.pod_info_on_mount.unwrap_or(false),
            republish: spec.requires_republish.unwrap_or(false),
            se_linux_mount: spec.se_linux_mount.unwrap_or(false),
            tokens_in_secrets: spec.service_account_token_in_secrets.unwrap_or(false),
            tokens: spec.token_requests.unwrap_or_default(),
            lifecycles: spec.volume_lifecycle_modes.unwrap_or_default(),
            group_policy: match spec.fs_group_policy.as_deref() {
                Some("None") => GroupPolicy::Never,
                Some("File") => GroupPolicy::Always,
                Some(_) | None => GroupPolicy::ByModeAndType,
            },
        })
    }

    /// Whether the driver supports volumes with this lifecycle; without a CSIDriver object, only
    /// persistent ones.
    #[must_use]
    pub fn allows(driver: Option<&Self>, lifecycle: Lifecycle) -> bool {
        match driver.map(|driver| driver.lifecycles.as_slice()) {
            None | Some([]) => lifecycle == Lifecycle::Persistent,
            Some(modes) => modes.iter().any(|mode| mode == lifecycle.name()),
        }
    }
}
