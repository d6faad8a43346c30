//! kubelet's progress with registering the driver.
//!
//! Pure; the times come in as arguments.

use std::time::{Duration, Instant};

/// kubelet's calls since the registration socket was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegistrationProgress {
    /// Time of the last `GetInfo`.
    pub asked: Option<Instant>,
    /// Time of the last confirmation that the driver is registered.
    pub confirmed: Option<Instant>,
}

/// kubelet looks once a second; after this time without a `GetInfo` something is wrong.
pub const GET_INFO_TIMEOUT: Duration = Duration::from_secs(30);

impl RegistrationProgress {
    /// Whether kubelet has registered the driver.
    pub fn is_registered(&self) -> bool {
        self.confirmed.is_some()
    }

    /// Time of the confirmation, unless `GetInfo` came again since: then kubelet registers the driver anew, and has not
    /// written CSINode yet.
    pub fn confirmation(&self) -> Option<Instant> {
        self.confirmed.filter(|it| self.asked <= Some(*it))
    }

    /// One line about the registration: done, or the reason why it is not.
    pub fn describe(&self, now: Instant) -> String {
        let ago = |moment| now.saturating_duration_since(moment).as_secs();
        match (self.asked, self.confirmed) {
            (Some(asked), Some(confirmed)) if asked > confirmed => format!(
                "registered {} s ago; kubelet asked again {} s ago and has not confirmed since",
                ago(confirmed),
                ago(asked)
            ),
            (_, Some(confirmed)) => format!("registered {} s ago", ago(confirmed)),
            (Some(asked), None) => format!(
                "not registered: kubelet asked {} s ago and has not confirmed yet; \
                 its log says what it is waiting for",
                ago(asked)
            ),
            (None, None) => format!("not registered: {NOT_ASKED}"),
        }
    }
}

/// Hint for a kubelet that never calls.
pub const NOT_ASKED: &str = "kubelet has not asked yet; --plugin-registration-path must be the \
                             host's /var/lib/kubelet/plugins_registry, mounted into this container";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_step_is_missing() {
        let start = Instant::now();
        let now = start + Duration::from_secs(7);
        let none = RegistrationProgress::default();
        assert!(none.describe(now).contains("--plugin-registration-path"));
        let asked = RegistrationProgress {
            asked: Some(start),
            ..none
        };
        assert!(asked.describe(now).contains("asked 7 s ago"));
        assert!(!asked.is_registered());
        let confirmed = RegistrationProgress {
            confirmed: Some(start),
            ..asked
        };
        assert!(confirmed.is_registered());
        assert_eq!(confirmed.confirmation(), Some(start));
        assert_eq!(confirmed.describe(now), "registered 7 s ago");
        assert_eq!(confirmed.describe(start), "registered 0 s ago");
        let again = RegistrationProgress {
            asked: Some(start + Duration::from_secs(5)),
            ..confirmed
        };
        assert!(again.is_registered());
        assert_eq!(again.confirmation(), None);
        let described = again.describe(now);
        assert!(described.contains("asked again 2 s ago"), "{described}");
        assert_eq!(asked.confirmation(), None);
    }
}
