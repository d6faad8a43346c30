//! PersistentVolume.

use uuid::Uuid;

use super::Text;

/// The fields that decisions need of a PersistentVolume. The name is the key under which it is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// `spec.csi`
    pub csi: Option<Csi>,
    /// `spec.claimRef`
    pub claim: Option<ClaimRef>,
    /// `spec.volumeMode`
    pub mode: Option<Text>,
    /// `spec.nodeAffinity.required` as JSON; volumes with equal affinity share it.
    pub affinity: Option<Text>,
}

/// The fields that decisions need of `spec.csi`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Csi {
    /// `driver`
    pub driver: Text,
    /// `volumeHandle`
    pub handle: Text,
}

impl Csi {
    /// Whether it is this driver's volume with this handle.
    #[must_use]
    pub fn is(&self, driver: &str, handle: &str) -> bool {
        *self.driver == *driver && *self.handle == *handle
    }
}

/// The fields that decisions need of `spec.claimRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRef {
    /// `namespace`
    pub namespace: Text,
    /// `name`
    pub name: Text,
    /// `uid`, if present.
    pub uid: Option<Uid>,
}

/// UID of a claim, as its sixteen bytes: there are two for each of 50,000 claims, and they are only
/// compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uid([u8; 16]);

impl Uid {
    /// Parses a UID.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match Uuid::parse_str(text) {
            Ok(uuid) => Self(uuid.into_bytes()),
            // API servers make no such UID. FNV-1a keeps different texts apart well enough.
            Err(_) => {
                let hash = text.bytes().fold(
                    0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
                    |hash, byte| {
                        (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
                    },
                );
                Self(hash.to_be_bytes())
            }
        }
    }

    /// The UID as API servers write it.
    #[must_use]
    pub fn text(self) -> String {
        Uuid::from_bytes(self.0).hyphenated().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_small() {
        assert!(size_of::<Volume>() <= 120, "{}", size_of::<Volume>());
    }

    #[test]
    fn uids_are_told_apart() {
        let all = ["", "U1", "U2", "2f0d7a3e-7f0c-4d53-8f4e-0f5f4f7d9a11"].map(Uid::new);
        for (index, one) in all.iter().enumerate() {
            assert_eq!(
                all.iter().filter(|other| *other == one).count(),
                1,
                "{index}"
            );
        }
    }
}
