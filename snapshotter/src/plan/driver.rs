//! What decisions need to know of the driver, whether it is one to work with at all, and which
//! changes of a driver end the process.
//!
//! It is read again whenever the driver restarts while everything else goes on.

use std::fmt;

use csi_proto::csi::controller_service_capability::rpc::Type as ControllerCapability;

/// The driver as decisions see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name from `GetPluginInfo`.
    pub name: String,
    /// What the driver's capabilities allow.
    pub abilities: Abilities,
}

/// The capabilities that change what the snapshotter does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Controller capability `LIST_SNAPSHOTS`.
    pub list: bool,
    /// Controller capability `GET_SNAPSHOT`.
    pub get: bool,
    /// Group controller capability `CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT`.
    pub group: bool,
    /// Plugin capability `SNAPSHOT_ACCESSIBILITY_CONSTRAINTS`.
    pub topology: bool,
}

impl Abilities {
    /// Abilities out of the controller's capability set. `others`: abilities out of other sets.
    ///
    /// # Errors
    /// The driver takes no snapshots.
    pub fn new(
        driver: &str,
        controller: impl Fn(ControllerCapability) -> bool,
        others: Self,
    ) -> Result<Self, Unsuitable> {
        use ControllerCapability as Rpc;
        if controller(Rpc::CreateDeleteSnapshot) {
            Ok(Self {
                list: controller(Rpc::ListSnapshots),
                get: controller(Rpc::GetSnapshot),
                ..others
            })
        } else {
            Err(Unsuitable(driver.to_owned()))
        }
    }
}

/// A driver of this name takes no snapshots: the process ends with this text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsuitable(pub String);

impl fmt::Display for Unsuitable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "CSI driver {} does not support ControllerCreateSnapshot; remove the snapshotter from \
             the driver's pod, or let the driver announce CREATE_DELETE_SNAPSHOT",
            self.0
        )
    }
}

impl std::error::Error for Unsuitable {}

/// Another driver answers on the socket: the process cannot go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Name at start-up.
    pub before: String,
    /// Name now.
    pub now: String,
}

impl fmt::Display for Renamed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, now } = self;
        write!(
            out,
            "the driver on the CSI socket changed its name from {before} to {now}; restart the \
             snapshotter together with the driver"
        )
    }
}

impl std::error::Error for Renamed {}

/// Whether the process may go on with the driver that came back as `name`. Abilities are looked at
/// for each check, and may change.
///
/// # Errors
/// Says why it may not; the process ends with that text.
pub fn accept(before: &Driver, name: &str) -> Result<(), Renamed> {
    if before.name == name {
        Ok(())
    } else {
        Err(Renamed {
            before: before.name.clone(),
            now: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_15_a_driver_must_take_snapshots() {
        use ControllerCapability::{CreateDeleteSnapshot, GetSnapshot, ListSnapshots};
        let with = |has: &[ControllerCapability]| {
            Abilities::new(
                "test.csi.driver",
                |asked| has.contains(&asked),
                Abilities::default(),
            )
        };
        let text = with(&[ListSnapshots]).unwrap_err().to_string();
        let expected = "CSI driver test.csi.driver does not support ControllerCreateSnapshot";
        assert!(text.starts_with(expected), "S-15: {text}");
        for (has, list, get) in [
            (&[CreateDeleteSnapshot][..], false, false),
            (&[CreateDeleteSnapshot, ListSnapshots], true, false),
            (&[CreateDeleteSnapshot, GetSnapshot], false, true),
        ] {
            let expected = Abilities {
                list,
                get,
                ..Abilities::default()
            };
            assert_eq!(with(has), Ok(expected));
        }
    }

    #[test]
    fn a_driver_that_came_back_is_accepted_or_named() {
        let before = Driver {
            name: "a".to_owned(),
            abilities: Abilities::default(),
        };
        assert_eq!(accept(&before, "a"), Ok(()));
        let text = accept(&before, "b").unwrap_err().to_string();
        assert!(text.contains("from a to b"), "{text}");
    }
}
