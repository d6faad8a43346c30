//! How far kubelet has come with registering the driver.
//!
//! Pure; the moments come in as arguments.

use std::time::{Duration, Instant};

/// What kubelet has done since the registration socket was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegistrationProgress {
    /// When kubelet asked last who we are.
    pub asked: Option<Instant>,
    /// When kubelet said last that the driver is registered.
    pub confirmed: Option<Instant>,
}

/// kubelet looks once a second; after this time without a question something is wrong.
pub const PATIENCE: Duration = Duration::from_secs(30);

impl RegistrationProgress {
    /// kubelet has registered the driver.
    pub fn is_registered(&self) -> bool {
        self.confirmed.is_some()
    }

    /// When kubelet confirmed, unless it has asked again since: then it registers the driver anew, and has not written CSINode.
    pub fn confirmation(&self) -> Option<Instant> {
        self.confirmed.filter(|it| self.asked <= Some(*it))
    }

    /// The driver is registered, or why it is not, on one line.
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

/// What to look at if kubelet never comes.
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
