//! Actions of users, administrators, pods and kubelet.

use super::driver::Disk;
use super::run::{Faults, World};
use crate::keys::{FILE_SYSTEM_RESIZE_PENDING, NODE_RESIZE_ERROR, RESIZE_CONDITIONS};
use crate::model::{
    ClaimDetail, ClaimRef, Condition, CsiSource, Pod, Quantity, ResizeStatus, SecretRef, Source,
    Text, Uid, Volume,
};
use crate::testing::{claim, class, condition, csi, driver, kind, pv};

/// The unit of sizes.
pub(super) const UNIT: i64 = 1 << 30;
const CLAIMS: [&str; 2] = ["c0", "c1"];
const ANOTHER: &str = "another.csi.driver";
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

    /// Creates a claim with a volume of its own.
    fn create(&mut self, name: &str) {
        let number = self.truths.len();
        let volume = Text::from(format!("pv{number}"));
        let handle = match self.faults {
            Faults::Aliases => "h".to_owned(),
            Faults::None | Faults::Crashes | Faults::All | Faults::Lasting | Faults::NodeOnly => {
                format!("h{number}")
            }
        };
        let uid = Uid::new(&format!("u{number}"));
        self.truth(&uid);
        let limit = if self.has_all_faults() {
            3 + i64::try_from(self.dice.below(6)).unwrap()
        } else {
            1000
        };
        self.driver.disks.entry(handle.clone()).or_insert(Disk {
            size: UNIT,
            confirmed: UNIT,
            class: String::new(),
            limit: limit * UNIT,
            node_limit: if self.faults == Faults::NodeOnly {
                limit * UNIT
            } else {
                1000 * UNIT
            },
        });
        // Volumes of other drivers never change, whatever their claims request.
        let foreign = self.dice.one_in(8);
        let named = foreign && self.dice.one_in(2);
        let object = ClaimDetail {
            name: name.into(),
            uid: uid.clone(),
            volume: volume.clone(),
            provisioner: named.then(|| ANOTHER.into()),
            ..claim()
        };
        let of = ClaimRef {
            namespace: "ns".into(),
            uid,
        };
        // Sometimes the volume is bound a moment after the claim.
        let late = self.dice.one_in(3);
        let mut bound = Volume {
            handle: handle.into(),
            claim: Some(of),
            ..pv()
        };
        if self.dice.one_in(3) {
            let secret = Text::from(format!("s{number}"));
            kind(&mut bound).source = Source::Csi(CsiSource {
                driver: driver().name.into(),
                expand_secret: Some(SecretRef {
                    namespace: "ns".into(),
                    name: secret.clone(),
                }),
                ..CsiSource::default()
            });
            self.server.secrets.insert(secret, true);
        }
        if foreign {
            kind(&mut bound).source = csi(ANOTHER);
        }
        let unbound = Volume {
            claim: None,
            ..bound.clone()
        };
        self.server.made_for.insert(volume.clone(), name.into());
        self.server.put_volume(&volume, late.then_some(unbound));
        self.server.put_volume(&volume, Some(bound));
        self.server.put_claim(&object.key(), Some(object));
    }

    /// A user changes a claim.
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
                // The API server accepts only more than the current capacity.
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
            // A condition of another program.
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
            // An infeasible size becomes feasible.
            for disk in self.driver.disks.values_mut() {
                disk.limit += UNIT;
            }
        }
        if self.restless && self.dice.one_in(3) {
            self.driver.away = !self.driver.away;
            if !self.driver.away {
                self.driver_is_back();
            }
        }
        if self.restless && self.dice.one_in(3) {
            let name = Text::from(format!("s{}", self.dice.below(self.truths.len())));
            match self.dice.below(3) {
                0 => self.server.secrets.remove(&name),
                text => self.server.secrets.insert(name, text == 1),
            };
        }
        if self.dice.one_in(2) {
            let name = CLASSES[self.dice.below(4)];
            if name == "z" || self.has_all_faults() {
                let mut object = class(&format!("{name}{}", self.dice.below(3)));
                if name == "z" && self.dice.one_in(3) {
                    object.driver = ANOTHER.into();
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

    fn driver_is_back(&mut self) {
        self.process.driver_is_back();
    }

    /// kubelet advances for some claim, or writes its result for a claim that it has read before.
    pub(super) fn kubelet(&mut self) {
        if let Some((key, version, object)) = self.node_write.take() {
            let now = self.server.claims.get(&key);
            if now.is_some_and(|(now, _)| *now == version) {
                self.check_capacity(&object);
                self.server.put_claim(&key, Some(object));
            }
            return;
        }
        let names: Vec<Text> = self.server.claims.keys().cloned().collect();
        if let Some(name) = self.pick(&names) {
            let fails = self.has_all_faults() && self.dice.one_in(4);
            let write = self.expand_on_node(&name, fails);
            if self.has_all_faults() && self.dice.one_in(3) {
                self.node_write = write
            } else {
                self.write_node(write)
            }
        }
    }

    pub(super) fn write_node(&mut self, write: Option<(Text, u64, ClaimDetail)>) {
        if let Some((key, _, object)) = write {
            self.check_capacity(&object);
            self.server.put_claim(&key, Some(object));
        }
    }

    pub(super) fn expand_on_node(
        &mut self,
        key: &Text,
        fails: bool,
    ) -> Option<(Text, u64, ClaimDetail)> {
        let (version, mut object) = self.server.claims.get(key).cloned()?;
        let (_, volume) = self.server.volumes.get(&object.volume)?;
        let larger = volume.capacity > object.capacity;
        let wanted = volume.capacity.map_or(0, |size| size.value());
        let disk = self.driver.disks.get_mut(&*volume.handle)?;
        let fails = fails || wanted > disk.node_limit;
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
                if self.faults == Faults::NodeOnly {
                    disk.size = disk.size.max(wanted);
                    disk.confirmed = disk.confirmed.max(wanted);
                }
                object.capacity = volume.capacity;
                object.resize = None;
                let others = object.conditions.iter();
                let others = others.filter(|held| !RESIZE_CONDITIONS.contains(&&*held.kind));
                object.conditions = others.cloned().collect();
            }
            _ => return None,
        }
        Some((key.clone(), version, object))
    }

    /// Removes all obstacles: every class exists and is this driver's, everything is feasible,
    /// nothing is in use.
    pub(super) fn cure(&mut self) {
        for name in CLASSES {
            let found = self.server.classes.get(name);
            if found.is_none_or(|(_, class)| *class.driver != *self.process.informers.driver.name) {
                self.server.put_class(&name.into(), Some(class(name)));
            }
        }
        for name in ["p0", "p1"] {
            self.server.put_pod(&name.into(), None);
        }
        self.driver.picky = false;
        self.driver.away = false;
        self.driver_is_back();
        for number in 0..self.truths.len() {
            self.server
                .secrets
                .insert(format!("s{number}").into(), true);
        }
        for disk in self.driver.disks.values_mut() {
            disk.limit = 1000 * UNIT;
        }
    }
}
