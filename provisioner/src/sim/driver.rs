//! The model driver: the existing volumes, and calls that outlive their caller.
//!
//! It does what CSI requires: one volume per name, globally or per topology; a call while another one for the same
//! volume runs is `ABORTED`. A final error means that nothing exists under the name, unless the driver refuses without
//! looking, like one that has just started and has no access to its storage system yet. Some drivers spell the handle
//! of a volume differently when a request is repeated, and know it by either spelling. In some topologies no call gets
//! an answer.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::csi::volume_content_source::Type;
use csi_proto::csi::{CreateVolumeRequest, Topology};
use tonic::Code;

use super::scene::ZONE;

/// Kind of a call, and its volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Name of the volume.
    Create(String),
    /// Handle of the volume.
    Delete(String),
}

/// A call the driver works on.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) kind: Kind,
    /// Whether the caller still waits.
    pub(super) awaited: bool,
    /// Allowed topologies, the preferred one first; empty is any.
    zones: Vec<String>,
    /// The data source.
    pub(super) source: Option<Type>,
    /// The request, without the Secret.
    asked: Option<CreateVolumeRequest>,
}

/// How a driver treats names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Names {
    /// Unique globally; a different request under the same name gets an error.
    #[default]
    Unique,
    /// Unique globally; a different request under the same name gets the existing volume.
    Shared,
    /// Unique per topology.
    Local,
}

#[derive(Default)]
pub(super) struct ModelDriver {
    /// Index among several drivers.
    pub(super) site: usize,
    /// Number of calls that it may still refuse without a look, since it has just started.
    pub(super) new: u32,
    names: Names,
    next: u64,
    /// Handles of the existing volumes, by name; where names are local the topology follows an `@`.
    pub(super) volumes: BTreeMap<String, String>,
    /// The requests they were made with.
    made: BTreeMap<String, CreateVolumeRequest>,
    /// Sizes of volumes in bytes as they were reported first, by handle.
    pub(super) sizes: BTreeMap<String, i64>,
    /// Handles of volumes; `true` if the driver's response makes a PersistentVolume of the plugin impossible.
    pub(super) untranslatable: BTreeMap<String, bool>,
    /// Topologies of volumes that are not accessible from everywhere, by name.
    pub(super) zones: BTreeMap<String, String>,
    /// Topologies without capacity.
    pub(super) full: BTreeSet<String>,
    /// Topologies in which no call for a node gets an answer.
    pub(super) silent: BTreeSet<String>,
    /// Whether it spells handles differently when it reports them again.
    pub(super) spells: bool,
    /// Handles that it has reported.
    reported: BTreeSet<String>,
    pub(super) running: Vec<Call>,
    /// The open request by name, until the driver has refused it for good or the volume is deleted.
    pub(super) open: BTreeMap<String, CreateVolumeRequest>,
    /// Requests that had a final answer, by name: they may be repeated, since the outcome of earlier calls is unknown.
    refused: BTreeMap<String, Vec<CreateVolumeRequest>>,
    /// Numbers of CreateVolume and DeleteVolume calls, by name of the volume.
    pub(super) calls: BTreeMap<String, (u32, u32)>,
}

impl ModelDriver {
    pub(super) fn new(site: usize, (names, spells): (Names, bool)) -> Self {
        Self {
            site,
            names,
            spells,
            ..Self::default()
        }
    }

    /// The spelling of this handle in the next response.
    pub(super) fn spelled(&mut self, id: &str) -> String {
        if !self.reported.insert(id.to_owned()) && self.spells {
            id.to_uppercase()
        } else {
            id.to_owned()
        }
    }

    /// CreateVolume arrives. `others`: the request may differ from the one before, since unsettled requests take turns,
    /// and a request without answer from a node that is gone is unsettled.
    pub(super) fn create(
        &mut self,
        request: &CreateVolumeRequest,
        others: bool,
    ) -> Result<u64, Refused> {
        self.calls.entry(request.name.clone()).or_default().0 += 1;
        let mut asked = request.clone();
        asked.secrets.clear();
        let again = self.refused.get(&request.name);
        let again = others || again.is_some_and(|refused| refused.contains(&asked));
        match self.open.get(&request.name) {
            Some(before) if *before != asked && !again => return Err(Refused::Different),
            Some(_) => {}
            None => {
                self.open.insert(request.name.clone(), asked.clone());
            }
        }
        let requirement = request.accessibility_requirements.iter();
        let preferred = requirement.flat_map(|requirement| &requirement.preferred);
        let zones: Vec<String> = preferred.filter_map(zone_of).collect();
        let made = self
            .made
            .get(&self.held(&request.name, &zones, Some(&asked)));
        if self.names != Names::Shared && made.is_some_and(|made| *made != asked) {
            self.disown(&request.name, &asked);
            return Err(Refused::NameInUse);
        }
        let id = self.begin(Kind::Create(request.name.clone()))?;
        if let Some(call) = self.running.last_mut() {
            call.zones = zones;
            call.asked = Some(asked);
            let source = request.volume_content_source.as_ref();
            call.source = source.and_then(|source| source.r#type.clone());
        }
        Ok(id)
    }

    /// The request has had an answer that counts as final.
    fn disown(&mut self, name: &str, asked: &CreateVolumeRequest) {
        if self.open.get(name) == Some(asked) {
            self.open.remove(name);
        }
        let refused = self.refused.entry(name.to_owned()).or_default();
        if !refused.contains(asked) {
            refused.push(asked.clone());
        }
    }

    /// Refuses the call without looking at the volumes. Returns whether one exists.
    pub(super) fn refuse(&mut self, id: u64) -> bool {
        let Some(call) = self.take(id) else {
            return false;
        };
        let (Kind::Create(name), Some(asked)) = (&call.kind, &call.asked) else {
            return false;
        };
        self.disown(name, asked);
        self.may_have(name)
    }

    /// The name of the volume that a request for these topologies gets or would get. Of several, one that was made with
    /// the same request comes first.
    fn held(&self, name: &str, zones: &[String], asked: Option<&CreateVolumeRequest>) -> String {
        if self.names != Names::Local {
            return name.to_owned();
        }
        let there = |zone: &&String| self.volumes.contains_key(&local(name, zone));
        let same = |zone: &&String| there(zone) && self.made.get(&local(name, zone)) == asked;
        let zone = { zones.iter().find(same) }
            .or_else(|| zones.iter().find(there))
            .or_else(|| self.free(zones));
        zone.map_or_else(|| name.to_owned(), |zone| local(name, zone))
    }

    /// Whether the volume of the call exists.
    pub(super) fn exists(&self, call: &Call) -> bool {
        matches!(&call.kind, Kind::Create(name) if self.volumes.contains_key(&self.held(name, &call.zones, call.asked.as_ref())))
    }

    /// This volume may be lost, and requested in another way.
    pub(super) fn forget(&mut self, name: &str) {
        self.open.remove(name);
        self.made.retain(|held, _| base(held) != name);
    }

    /// Handles of the volumes of this name.
    pub(super) fn named(&self, name: &str) -> impl Iterator<Item = &String> {
        let all = self.volumes.iter();
        all.filter(move |(held, _)| base(held) == name)
            .map(|(_, id)| id)
    }

    /// Topology of the volume with this handle, unless it is accessible from everywhere.
    pub(super) fn zone(&self, id: &str) -> Option<&String> {
        let name = self.volumes.iter().find(|(_, held)| *held == id);
        name.and_then(|(name, _)| self.zones.get(name))
    }

    /// DeleteVolume arrives.
    pub(super) fn delete(&mut self, id: &str) -> Result<u64, Refused> {
        if let Some(name) = self.name_of(id) {
            self.calls.entry(name).or_default().1 += 1;
        }
        self.begin(Kind::Delete(id.to_lowercase()))
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
            asked: None,
        });
        Ok(self.next)
    }

    fn is_busy(&self, kind: &Kind) -> bool {
        if self.running.is_empty() {
            return false;
        }
        let subject = self.subject(kind);
        self.running
            .iter()
            .any(|call| self.subject(&call.kind) == subject)
    }

    /// The volume of a call, by name where it has one.
    fn subject(&self, kind: &Kind) -> String {
        match kind {
            Kind::Create(name) => name.clone(),
            Kind::Delete(id) => self.name_of(id).unwrap_or_else(|| id.clone()),
        }
    }

    fn name_of(&self, id: &str) -> Option<String> {
        let mut volumes = self.volumes.iter();
        volumes
            .find(|(_, held)| is_same(held, id))
            .map(|(name, _)| base(name).to_owned())
    }

    /// Whether a volume of the call exists, or there is capacity for one.
    pub(super) fn has_capacity(&self, call: &Call) -> bool {
        self.exists(call) || call.zones.is_empty() || self.free(&call.zones).is_some()
    }

    fn free<'a>(&self, zones: &'a [String]) -> Option<&'a String> {
        zones.iter().find(|zone| !self.full.contains(*zone))
    }

    /// The call ends with effect. Returns the volume's handle.
    pub(super) fn succeed(&mut self, id: u64) -> Option<String> {
        let call = self.take(id)?;
        let free = self.free(&call.zones).cloned();
        match call.kind {
            Kind::Create(name) => {
                let name = self.held(&name, &call.zones, call.asked.as_ref());
                if !self.volumes.contains_key(&name) {
                    self.next += 1;
                    let fresh = format!("vol-{}-{}", self.site, self.next);
                    self.volumes.insert(name.clone(), fresh);
                    self.made
                        .extend(call.asked.map(|asked| (name.clone(), asked)));
                    match free {
                        Some(zone) => self.zones.insert(name.clone(), zone),
                        None => self.zones.remove(&name),
                    };
                }
                self.volumes.get(&name).cloned()
            }
            Kind::Delete(id) => {
                if let Some(name) = self.name_of(&id) {
                    // Requests for this name get another volume from now on.
                    self.open.remove(&name);
                }
                self.volumes.retain(|_, held| *held != id);
                let volumes = &self.volumes;
                self.made.retain(|name, _| volumes.contains_key(name));
                Some(id)
            }
        }
    }

    /// The call ends without effect. Returns whether it may end with a final error: not if the volume exists, since
    /// then the answer would have to be success.
    pub(super) fn fail(&mut self, id: u64) -> bool {
        let Some(call) = self.take(id) else {
            return true;
        };
        let exists = self.exists(&call);
        match call.kind {
            Kind::Create(name) => {
                if let Some(asked) = call.asked.filter(|_| !exists && call.awaited) {
                    self.disown(&name, &asked);
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
        let index = self.running.iter().position(|call| call.id == id)?;
        Some(self.running.remove(index))
    }

    /// The caller gives up waiting; the call goes on.
    pub(super) fn abandon(&mut self, id: u64) {
        for call in self.running.iter_mut().filter(|call| call.id == id) {
            call.awaited = false;
        }
    }

    /// Whether the volume of this handle exists.
    pub(super) fn has(&self, id: &str) -> bool {
        self.volumes.values().any(|held| is_same(held, id))
    }

    /// Whether a volume of this name exists, or a call for one is running.
    pub(super) fn may_have(&self, name: &str) -> bool {
        let creates = |call: &Call| matches!(&call.kind, Kind::Create(created) if created == name);
        self.named(name).next().is_some() || self.running.iter().any(creates)
    }

    /// Whether a call for a volume of this name is running.
    pub(super) fn makes(&self, name: &str) -> bool {
        let creates = |call: &Call| matches!(&call.kind, Kind::Create(created) if created == name);
        self.running.iter().any(creates)
    }

    /// Whether another volume of this name than that of `id` exists, or, where names are local, may exist soon.
    pub(super) fn has_elsewhere(&self, name: &str, id: &str) -> bool {
        let is_made = self.names == Names::Local && self.makes(name);
        is_made || self.named(name).any(|held| !is_same(held, id))
    }
}

/// Whether both are handles of one volume.
pub(super) fn is_same(id: &str, other: &str) -> bool {
    id.eq_ignore_ascii_case(other)
}

fn local(name: &str, zone: &str) -> String {
    format!("{name}@{zone}")
}

/// The requested name.
pub(super) fn base(name: &str) -> &str {
    name.split('@').next().unwrap_or_default()
}

fn zone_of(topology: &Topology) -> Option<String> {
    topology.segments.get(ZONE).cloned()
}

/// Why a call does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Another call for the volume is running.
    Busy,
    /// The request is not the one it repeats.
    Different,
    /// Another volume of this name exists.
    NameInUse,
}

impl Refused {
    pub(super) fn code(self) -> Code {
        match self {
            Self::Busy | Self::Different => Code::Aborted,
            Self::NameInUse => Code::AlreadyExists,
        }
    }
}
