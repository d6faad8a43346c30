//! What users, administrators, pods and kubelet do.

use super::driver::Disk;
use super::run::{Faults, World};
use crate::keys::{FILE_SYSTEM_RESIZE_PENDING, NODE_RESIZE_ERROR, RESIZE_CONDITIONS};
use crate::model::{
    ClaimDetail, ClaimRef, Condition, Pod, Quantity, ResizeStatus, Text, Uid, Volume,
};
use crate::testing::{claim, class, condition, pv};

/// One step in size.
pub(super) const UNIT: i64 = 1 << 30;
const CLAIMS: [&str; 2] = ["c0", "c1"];
const CLASSES: [&str; 4] = ["a", "b", "c", "z"];

pub(super) fn units(count: i64) -> Option<Quantity> {
    Some(Quantity::from_bytes(count * UNIT))
}

impl World {
    pub(super) fn furnish(&mut self) {
        let all = self.has_all_faults();
        self.driver.offline = all && self.dice.one_in(3);
        self.driver.picky = all;
        for name in CLAIMS {
            self.create(name);
        }
        for name in ["a", "b", "c"] {
            self.server.put_class(&name.into(), Some(class(name)));
        }
    }

    /// A new claim with a volume of its own.
    fn create(&mut self, name: &str) {
        let number = self.truths.len();
        let volume = Text::from(format!("pv{number}"));
        let handle = match self.faults {
            Faults::Aliases => "h".to_owned(),
            Faults::None | Faults::Crashes | Faults::All => format!("h{number}"),
        };
        let uid = Uid::new(&format!("u{number}"));
        self.truth(&uid);
        let limit = match self.has_all_faults() {
            true => 3 + i64::try_from(self.dice.below(6)).unwrap(),
            false => 1000,
        };
        self.driver.disks.entry(handle.clone()).or_insert(Disk {
            size: UNIT,
            confirmed: UNIT,
            class: String::new(),
            limit: limit * UNIT,
        });
        let object = ClaimDetail {
            name: name.into(),
            uid: uid.clone(),
            volume: volume.clone(),
            ..claim()
        };
        let of = ClaimRef {
            namespace: "ns".into(),
            uid,
        };
        // Sometimes the volume is bound a moment later than the claim.
        let late = self.dice.one_in(3);
        let bound = Volume {
            handle: handle.into(),
            claim: Some(of),
            ..pv()
        };
        let unbound = Volume {
            claim: None,
            ..bound.clone()
        };
        self.server.made_for.insert(volume.clone(), name.into());
        self.server.put_volume(&volume, late.then_some(unbound));
        self.server.put_volume(&volume, Some(bound));
        self.server.put_claim(&object.key(), Some(object));
    }

    /// Somebody wishes for something else.
    pub(super) fn user(&mut self) {
        let name = CLAIMS[self.dice.below(3) / 2];
        let key = Text::from(format!("ns/{name}"));
        let Some((_, found)) = self.server.claims.get(&key).cloned() else {
            return self.create(name);
        };
        let mut object = found;
        match self.dice.below(16) {
            0..=6 => {
                let size = units(2 + i64::try_from(self.dice.below(7)).unwrap());
                // The API server takes nothing that is not more than there is.
                if size <= object.capacity || size == object.request {
                    return;
                }
                object.request = size;
                self.truth(&object.uid).wishes.0 += 1;
            }
            7..=12 => {
                let wanted = ["", "a", "b", "c", "z"][self.dice.below(5)];
                if *object.class == *wanted {
                    return;
                }
                object.class = wanted.into();
                self.truth(&object.uid).wishes.1 += 1;
            }
            13 if self.dice.one_in(3) => {
                let volume = object.volume.clone();
                self.server.put_claim(&key, None);
                if self.dice.one_in(2) {
                    self.server.put_volume(&volume, None);
                }
                return;
            }
            13 => {}
            // Somebody else's condition.
            _ => {
                let others = object.conditions.iter();
                let others = others.filter(|held| *held.kind != *"Other");
                let mut conditions: Vec<Condition> = others.cloned().collect();
                if self.dice.one_in(2) {
                    conditions.push(condition("Other", ""));
                }
                object.conditions = conditions.into();
            }
        }
        self.server.put_claim(&key, Some(object));
    }

    /// Pods and classes come and go.
    pub(super) fn surroundings(&mut self) {
        if self.has_all_faults() && self.dice.one_in(3) {
            // What was impossible becomes possible.
            for disk in self.driver.disks.values_mut() {
                disk.limit += UNIT;
            }
        }
        if self.dice.one_in(2) {
            let name = CLASSES[self.dice.below(4)];
            if name == "z" || self.has_all_faults() {
                let mut object = class(&format!("{name}{}", self.dice.below(3)));
                if name == "z" && self.dice.one_in(3) {
                    object.driver = "another.csi.driver".into();
                }
                let gone = name == "z" && self.dice.one_in(2);
                self.server
                    .put_class(&name.into(), (!gone).then_some(object));
            }
            return;
        }
        let name = Text::from(["p0", "p1"][self.dice.below(2)]);
        let claims: [Text; 1] = [CLAIMS[self.dice.below(2)].into()];
        let pod = Pod {
            namespace: "ns".into(),
            claims: claims.into(),
        };
        let gone = self.dice.one_in(2);
        self.server.put_pod(&name, (!gone).then_some(pod));
    }

    /// kubelet takes a step for some claim.
    pub(super) fn kubelet(&mut self) {
        let names: Vec<Text> = self.server.claims.keys().cloned().collect();
        if let Some(name) = self.pick(&names) {
            let fails = self.has_all_faults() && self.dice.one_in(4);
            self.expand_on_node(&name, fails);
        }
    }

    pub(super) fn expand_on_node(&mut self, key: &Text, fails: bool) {
        let Some((_, mut object)) = self.server.claims.get(key).cloned() else {
            return;
        };
        let Some((_, volume)) = self.server.volumes.get(&object.volume) else {
            return;
        };
        let larger = volume.capacity > object.capacity;
        match object.resize {
            Some(ResizeStatus::NodePending) if larger => {
                object.resize = Some(ResizeStatus::NodeInProgress);
            }
            Some(ResizeStatus::NodeInProgress) if fails => {
                object.resize = Some(ResizeStatus::NodeInfeasible);
                let mut conditions = object.conditions.to_vec();
                conditions.retain(|held| *held.kind != *NODE_RESIZE_ERROR);
                conditions.push(condition(NODE_RESIZE_ERROR, "no"));
                conditions.retain(|held| *held.kind != *FILE_SYSTEM_RESIZE_PENDING);
                object.conditions = conditions.into();
            }
            Some(ResizeStatus::NodeInProgress) => {
                object.capacity = volume.capacity;
                object.resize = None;
                let others = object.conditions.iter();
                let others = others.filter(|held| !RESIZE_CONDITIONS.contains(&&*held.kind));
                object.conditions = others.cloned().collect();
                self.check_capacity(&object);
            }
            _ => return,
        }
        self.server.put_claim(key, Some(object));
    }

    /// All classes are there, and the driver's, and nothing is impossible or in use any more.
    pub(super) fn cure(&mut self) {
        for name in CLASSES {
            let found = self.server.classes.get(name);
            if found.is_none_or(|(_, class)| *class.driver != *self.process.driver.name) {
                self.server.put_class(&name.into(), Some(class(name)));
            }
        }
        for name in ["p0", "p1"] {
            self.server.put_pod(&name.into(), None);
        }
        self.driver.picky = false;
        for disk in self.driver.disks.values_mut() {
            disk.limit = 1000 * UNIT;
        }
    }
}
