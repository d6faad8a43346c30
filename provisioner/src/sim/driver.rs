//! The model driver: which volumes exist, and calls that outlive their caller.
//!
//! It keeps its word as CSI asks for it: one volume per name; a call while another one for the same
//! volume runs is `ABORTED`; an error that is final means that nothing exists under the name and
//! nothing is running.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::csi::volume_content_source::Type;
use csi_proto::csi::{CreateVolumeRequest, Topology};
use tonic::Code;

use super::scene::ZONE;

/// What a call is about.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Name of the volume.
    Create(String),
    /// Id of the volume.
    Delete(String),
}

/// A call the driver works on.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) kind: Kind,
    /// Whether the caller still waits.
    pub(super) awaited: bool,
    /// Where the volume may be, the preferred place first; empty is anywhere.
    zones: Vec<String>,
    /// What it starts from.
    pub(super) source: Option<Type>,
}

#[derive(Default)]
pub(super) struct ModelDriver {
    /// Which of several drivers.
    pub(super) site: usize,
    next: u64,
    /// Ids of the volumes that exist, by name.
    pub(super) volumes: BTreeMap<String, String>,
    /// Places of those that are not everywhere, by name.
    pub(super) places: BTreeMap<String, String>,
    /// Places without room.
    pub(super) full: BTreeSet<String>,
    pub(super) running: Vec<Call>,
    /// The request by name, until the driver has refused it for good or the volume is deleted.
    pub(super) open: BTreeMap<String, CreateVolumeRequest>,
    /// How many calls of each kind there were, by name of the volume.
    pub(super) calls: BTreeMap<String, (u32, u32)>,
}

impl ModelDriver {
    pub(super) fn new(site: usize) -> Self {
        Self {
            site,
            ..Self::default()
        }
    }

    /// CreateVolume arrives.
    pub(super) fn create(&mut self, request: &CreateVolumeRequest) -> Result<u64, Refused> {
        self.calls.entry(request.name.clone()).or_default().0 += 1;
        let mut asked = request.clone();
        asked.secrets.clear();
        match self.open.get(&request.name) {
            Some(before) if *before != asked => return Err(Refused::Different),
            Some(_) => {}
            None => {
                self.open.insert(request.name.clone(), asked);
            }
        }
        let id = self.begin(Kind::Create(request.name.clone()))?;
        if let Some(call) = self.running.last_mut() {
            let requirement = request.accessibility_requirements.iter();
            let preferred = requirement.flat_map(|requirement| &requirement.preferred);
            call.zones = preferred.filter_map(zone_of).collect();
            let source = request.volume_content_source.as_ref();
            call.source = source.and_then(|source| source.r#type.clone());
        }
        Ok(id)
    }

    /// DeleteVolume arrives.
    pub(super) fn delete(&mut self, id: &str) -> Result<u64, Refused> {
        if let Some(name) = self.name_of(id) {
            self.calls.entry(name).or_default().1 += 1;
        }
        self.begin(Kind::Delete(id.to_owned()))
    }

    fn begin(&mut self, kind: Kind) -> Result<u64, Refused> {
        if self.is_busy(&kind) {
            return Err(Refused::Busy);
        }
        self.next += 1;
        self.running.push(Call {
            id: self.next,
            kind,
            awaited: true,
            zones: Vec::new(),
            source: None,
        });
        Ok(self.next)
    }

    fn is_busy(&self, kind: &Kind) -> bool {
        if self.running.is_empty() {
            return false;
        }
        let subject = self.subject(kind);
        { self.running.iter() }.any(|call| self.subject(&call.kind) == subject)
    }

    /// The volume that a call is about, by name where there is one.
    fn subject(&self, kind: &Kind) -> String {
        match kind {
            Kind::Create(name) => name.clone(),
            Kind::Delete(id) => self.name_of(id).unwrap_or_else(|| id.clone()),
        }
    }

    fn name_of(&self, id: &str) -> Option<String> {
        let mut volumes = self.volumes.iter();
        volumes
            .find(|(_, held)| *held == id)
            .map(|(name, _)| name.clone())
    }

    /// Whether a volume of the call exists, or there is room for one.
    pub(super) fn has_room(&self, call: &Call) -> bool {
        let exists = matches!(&call.kind, Kind::Create(name) if self.volumes.contains_key(name));
        exists || call.zones.is_empty() || self.free(call).is_some()
    }

    fn free<'a>(&self, call: &'a Call) -> Option<&'a String> {
        call.zones.iter().find(|zone| !self.full.contains(*zone))
    }

    /// The call ends with effect. Returns the volume's id.
    pub(super) fn succeed(&mut self, id: u64) -> Option<String> {
        let call = self.take(id)?;
        let free = self.free(&call).cloned();
        match call.kind {
            Kind::Create(name) => {
                if !self.volumes.contains_key(&name) {
                    self.next += 1;
                    let fresh = format!("vol-{}-{}", self.site, self.next);
                    self.volumes.insert(name.clone(), fresh);
                    match free {
                        Some(zone) => self.places.insert(name.clone(), zone),
                        None => self.places.remove(&name),
                    };
                }
                self.volumes.get(&name).cloned()
            }
            Kind::Delete(id) => {
                if let Some(name) = self.name_of(&id) {
                    // What is asked for under this name from now on is another volume.
                    self.open.remove(&name);
                }
                self.volumes.retain(|_, held| *held != id);
                Some(id)
            }
        }
    }

    /// The call ends without effect. Whether it may end with a final error: not if the volume
    /// exists, since then the answer would have to be success.
    pub(super) fn fail(&mut self, id: u64) -> bool {
        let Some(call) = self.take(id) else {
            return true;
        };
        match call.kind {
            Kind::Create(name) => {
                let exists = self.volumes.contains_key(&name);
                if !exists && call.awaited {
                    self.open.remove(&name);
                }
                !exists
            }
            Kind::Delete(_) => true,
        }
    }

    pub(super) fn call(&self, id: u64) -> Option<&Call> {
        self.running.iter().find(|call| call.id == id)
    }

    fn take(&mut self, id: u64) -> Option<Call> {
        let place = self.running.iter().position(|call| call.id == id)?;
        Some(self.running.remove(place))
    }

    /// The caller waits no longer; the call goes on.
    pub(super) fn abandon(&mut self, id: u64) {
        for call in self.running.iter_mut().filter(|call| call.id == id) {
            call.awaited = false;
        }
    }

    /// Whether the volume of this id exists.
    pub(super) fn has(&self, id: &str) -> bool {
        self.volumes.values().any(|held| held == id)
    }

    /// Whether there is a volume of this name, or a call for one is running.
    pub(super) fn may_have(&self, name: &str) -> bool {
        let creates = |call: &Call| matches!(&call.kind, Kind::Create(created) if created == name);
        self.volumes.contains_key(name) || self.running.iter().any(creates)
    }
}

fn zone_of(place: &Topology) -> Option<String> {
    place.segments.get(ZONE).cloned()
}

/// Why a call does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Another call for the volume is running.
    Busy,
    /// The request is not the one it repeats.
    Different,
}

impl Refused {
    pub(super) fn code(self) -> Code {
        Code::Aborted
    }
}
