//! Which calls to make, decided by the driver's capabilities alone.

use csi_proto::csi::controller_service_capability::rpc::Type;

/// `VOLUME_CONDITION` of CSI 1.12 and older, a number that CSI 1.13 reserves.
pub const VOLUME_CONDITION: i32 = 11;

/// The calls to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// ControllerListVolumeHealth; with `get`, ControllerGetVolumeHealth for volumes missing from the list.
    ListHealth {
        /// Whether the driver implements ControllerGetVolumeHealth, as it should.
        get: bool,
    },
    /// ControllerGetVolumeHealth for each volume.
    GetHealth,
    /// ListVolumes, for the conditions in its entries.
    ListConditions,
    /// ControllerGetVolume for each volume, for the condition in the answer.
    GetConditions,
    /// None: the driver does not report the health of volumes.
    Nothing,
}

impl Mode {
    /// The mode for a controller whose capabilities have these numbers. Prefers health to conditions, which contain
    /// nothing more.
    #[must_use]
    pub fn of(has: impl Fn(i32) -> bool) -> Self {
        let rpc = |rpc: Type| has(i32::from(rpc));
        if rpc(Type::ListVolumeHealth) {
            let get = rpc(Type::GetVolumeHealth);
            return Self::ListHealth { get };
        }
        if rpc(Type::GetVolumeHealth) {
            return Self::GetHealth;
        }
        match has(VOLUME_CONDITION) {
            true if rpc(Type::ListVolumes) => Self::ListConditions,
            true if rpc(Type::GetVolume) => Self::GetConditions,
            true | false => Self::Nothing,
        }
    }

    /// Whether the driver reports conditions of CSI 1.12 and older, which become events.
    #[must_use]
    pub fn is_older(self) -> bool {
        matches!(self, Self::ListConditions | Self::GetConditions)
    }

    /// Whether the driver can be queried about single volumes.
    #[must_use]
    pub fn can_get(self) -> bool {
        match self {
            Self::ListHealth { get } => get,
            Self::GetHealth | Self::GetConditions => true,
            Self::ListConditions | Self::Nothing => false,
        }
    }

    /// Whether the driver can list volumes.
    #[must_use]
    pub fn lists(self) -> bool {
        matches!(self, Self::ListHealth { .. } | Self::ListConditions)
    }
}

/// The driver as decisions see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name from `GetPluginInfo`.
    pub name: String,
    /// Which calls the driver gets.
    pub mode: Mode,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_4_to_6_capabilities_choose_the_mode() {
        let rows: [(&str, &[i32], Mode); 9] = [
            ("H-4", &[3, 12], Mode::Nothing),
            ("H-4", &[11], Mode::Nothing),
            ("H-4", &[], Mode::Nothing),
            ("H-5", &[16, 17], Mode::ListHealth { get: true }),
            ("rule 6", &[17], Mode::ListHealth { get: false }),
            ("H-6", &[16], Mode::GetHealth),
            ("H-6", &[11, 3], Mode::ListConditions),
            ("H-6", &[11, 12], Mode::GetConditions),
            ("H-6", &[11, 3, 16, 17], Mode::ListHealth { get: true }),
        ];
        for (row, numbers, expected) in rows {
            assert_eq!(
                Mode::of(|number| numbers.contains(&number)),
                expected,
                "{row} {numbers:?}"
            );
        }
        assert_eq!(
            Mode::of(|number| [11, 3, 12].contains(&number)),
            Mode::ListConditions
        );
    }
}
