//! What decisions need to know of the driver, and whether it is one to work with at all.
//!
//! It is read again whenever the driver restarts while everything else goes on.

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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "CSI driver {0} does not support ControllerCreateSnapshot; remove the snapshotter from the driver's pod, or let \
     the driver announce CREATE_DELETE_SNAPSHOT"
)]
pub struct Unsuitable(pub String);

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
}
