//! The driver's name and abilities, and whether the snapshotter can work with them.
//!
//! They are read again after each restart of the driver, while the process keeps running.

use csi_proto::csi::controller_service_capability::rpc::Type as ControllerCapability;

/// The driver, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name from `GetPluginInfo`.
    pub name: String,
    /// The abilities that its capabilities add up to.
    pub abilities: Abilities,
}

/// The capabilities that the snapshotter's behaviour depends on.
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
    /// Derives the abilities from the controller's capability set. `others`: abilities from other
    /// sets.
    ///
    /// # Errors
    /// The driver cannot create snapshots.
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

/// The driver of this name cannot create snapshots: the process ends with this text.
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
