//! The volumes with the annotation of an expansion, by claim.

use std::collections::HashMap;

use sidecar::part::only;

use super::InFlightState;
use crate::model::{Text, Uid};

/// A volume with the annotation.
#[derive(Clone, Debug)]
struct Annotated {
    volume: Text,
    /// UID of its claim.
    uid: Uid,
}

/// Volumes with the annotation, by the key of their claim. A claim has several while volumes of
/// earlier claims with the same name still have theirs.
#[derive(Clone, Debug, Default)]
pub(super) struct AnnotatedVolumes {
    by_claim: HashMap<Text, Vec<Annotated>>,
}

impl InFlightState {
    /// The volume with the annotation of an expansion of a claim with this name; if there are
    /// several, the latest.
    #[must_use]
    pub fn annotated(&self, claim: &Text) -> Option<&Text> {
        let last = self.annotated.by_claim.get(claim)?.last()?;
        Some(&last.volume)
    }
}

impl AnnotatedVolumes {
    /// The part about one claim.
    pub(super) fn about(&self, claim: &Text) -> Self {
        Self {
            by_claim: only(self.by_claim.get_key_value(claim)),
        }
    }

    /// Adds a volume with the annotation for this claim.
    pub(super) fn insert(&mut self, claim: Text, uid: Uid, volume: Text) {
        let volumes = self.by_claim.entry(claim).or_default();
        volumes.push(Annotated { volume, uid });
    }

    /// Removes a volume that does not have it any more.
    pub(super) fn remove(&mut self, claim: &Text, volume: &Text) {
        if let Some(volumes) = self.by_claim.get_mut(claim) {
            volumes.retain(|annotated| annotated.volume != *volume);
            if volumes.is_empty() {
                self.by_claim.remove(claim);
            }
        }
    }

    /// The volume of the claim with this UID, else the latest.
    pub(super) fn of(&self, claim: &Text, uid: &Uid) -> Option<&Text> {
        let volumes = self.by_claim.get(claim)?;
        let own = volumes.iter().rfind(|annotated| annotated.uid == *uid);
        let annotated = own.or_else(|| volumes.last())?;
        Some(&annotated.volume)
    }

    /// Whether any volume has the annotation for a claim with this name.
    pub(super) fn has(&self, claim: &Text) -> bool {
        self.by_claim.contains_key(claim)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::model::{Claim, Quiet, Volume};
    use crate::plan::Settings;
    use crate::plan::fairness::{Kind, Task};
    use crate::testing::{UID, driver, pre_resize, pv};

    const OWN: &str = "pv1";
    const EARLIER: &str = "pv0";

    fn task() -> Task {
        Task::new(Kind::Expand, &"ns/c1".into())
    }

    /// A volume with the annotation for the claim of the fixture's name with this UID.
    fn annotated(uid: &str) -> Volume {
        let mut volume = pv();
        volume.pre_resize = pre_resize("512Mi");
        volume.claim.as_mut().unwrap().uid = Uid::new(uid);
        volume
    }

    fn changed(
        in_flight: &mut InFlightState,
        name: &str,
        before: Option<&Volume>,
        after: Option<&Volume>,
    ) -> Vec<Task> {
        in_flight.volume_changed(&name.into(), before, after, &driver())
    }

    /// The annotated volume that an attempt on the fixture's claim reads.
    fn looked_at(in_flight: &mut InFlightState) -> Option<Text> {
        let (uid, capacity) = (Uid::new(UID), None);
        let claim = Claim::Quiet(Quiet { uid, capacity });
        let start = in_flight.begin(&task(), &claim, Instant::now());
        start.unwrap().annotated
    }

    #[test]
    fn z_57_the_annotation_goes_whatever_volumes_of_earlier_claims_carry() {
        let rows = [
            ("the earlier one goes", [EARLIER, OWN], true),
            ("the earlier one, listed last, goes", [OWN, EARLIER], true),
            ("the earlier one stays", [EARLIER, OWN], false),
            ("the earlier one, listed last, stays", [OWN, EARLIER], false),
        ];
        for (row, order, goes) in rows {
            let mut in_flight = InFlightState::new(&Settings::default());
            let (own, earlier) = (annotated(UID), annotated("earlier"));
            for name in order {
                let volume = if name == OWN { &own } else { &earlier };
                let woken = changed(&mut in_flight, name, None, Some(volume));
                assert_eq!(woken, [task()], "{row}");
            }
            if goes {
                let woken = changed(&mut in_flight, EARLIER, Some(&earlier), Some(&pv()));
                assert_eq!(woken, [], "{row}");
                assert_eq!(in_flight.annotated(&"ns/c1".into()), Some(&OWN.into()));
            }
            assert_eq!(looked_at(&mut in_flight).as_deref(), Some(OWN), "{row}");
            if !goes {
                changed(&mut in_flight, EARLIER, Some(&earlier), None);
            }
            changed(&mut in_flight, OWN, Some(&own), Some(&pv()));
            assert_eq!(in_flight.annotated(&"ns/c1".into()), None, "{row}");
        }
    }

    #[test]
    fn z_57_a_volume_that_passes_to_another_claim_of_the_name_brings_that_one_back() {
        let mut in_flight = InFlightState::new(&Settings::default());
        let (before, after) = (annotated("earlier"), annotated(UID));
        changed(&mut in_flight, OWN, None, Some(&before));
        let passes = changed(&mut in_flight, OWN, Some(&before), Some(&after));
        assert_eq!(passes, [task()]);
        assert_eq!(looked_at(&mut in_flight).as_deref(), Some(OWN));
        let same = changed(&mut in_flight, OWN, Some(&after), Some(&after));
        assert_eq!(same, [], "nothing changed");
    }
}
