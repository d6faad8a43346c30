//! The age of a cached object, in eight bytes: there is one for every object.

const MET: u64 = 1 << 62;
const OWN: u64 = 1 << 63;
/// API servers without etcd use nanoseconds since 1970; these bits last for a century.
const LAST_VERSION: u64 = MET - 1;

/// The version of an object and two flags since the start of the last list: whether the list or the watch
/// brought the object, and whether an own write's response was stored that they have not brought yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u64);

impl Stamp {
    /// The list or the watch brought this version.
    pub(super) fn met(version: u64) -> Self {
        Self(of(version) | MET)
    }

    /// The response to an own write had this version.
    pub(super) fn own(version: u64, is_met: bool) -> Self {
        Self(of(version) | OWN | if is_met { MET } else { 0 })
    }

    /// The version; 0 if it is not a number, or larger than any API server's.
    pub(super) fn version(self) -> u64 {
        self.0 & LAST_VERSION
    }

    pub(super) fn is_met(self) -> bool {
        self.0 & MET != 0
    }

    pub(super) fn is_own(self) -> bool {
        self.0 & OWN != 0
    }

    /// Marks that the list or the watch brought the object, whatever its version.
    pub(super) fn meet(&mut self) {
        self.0 |= MET;
    }

    /// Marks that the list or the watch brought the own write's state.
    pub(super) fn confirm(&mut self) {
        self.0 &= !OWN;
    }

    /// Clears the flags when a list begins.
    pub(super) fn begin_list(&mut self) {
        self.0 &= LAST_VERSION;
    }
}

fn of(version: u64) -> u64 {
    if version > LAST_VERSION { 0 } else { version }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_apart() {
        for version in [0, 7, 1_753_647_547_040_015_001, LAST_VERSION] {
            let all = |stamp: Stamp| {
                assert_eq!(stamp.version(), version);
                (stamp.is_met(), stamp.is_own())
            };
            let mut stamp = Stamp::own(version, false);
            assert_eq!(all(stamp), (false, true));
            stamp.meet();
            assert_eq!(all(stamp), (true, true));
            stamp.confirm();
            assert_eq!(all(stamp), (true, false));
            assert_eq!(stamp, Stamp::met(version));
            assert_eq!(all(Stamp::own(version, true)), (true, true));
            let mut stamp = Stamp::own(version, true);
            stamp.begin_list();
            assert_eq!(all(stamp), (false, false));
        }
    }

    #[test]
    fn a_version_beyond_all_is_none() {
        assert_eq!(Stamp::met(LAST_VERSION + 1).version(), 0);
        assert_eq!(Stamp::own(u64::MAX, false), Stamp::own(0, false));
    }
}
