//! CreateVolume calls begin and end, and are checked against the invariants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::volume_content_source::Type;
use csi_proto::csi::{
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse, Topology,
    Volume, VolumeContentSource,
};
use sidecar::controller::{self, CallError};
use tonic::Code;

use super::driver::{Kind, Refused, is_same};
use super::mutant::Mutant;
use super::process::State;
use super::run::{World, rpc};
use super::scene::{Scene, ZONE, needs_secret, zone};
use super::volume::handle;
use crate::keys::CLONE_FINALIZER;
use crate::model::Claim;
use crate::plan::in_flight::ClaimKey;
use crate::plan::outcome::RpcError;
use crate::plan::reactor::{Attempt, Step};
use crate::plan::request::{Call, Called, Discard, PinnedRequest, Reply, Request};

/// Most calls with one request between two events or ticks.
const MOST_ASKED: u32 = 2;

impl World {
    pub(super) fn begin_create_call(
        &mut self,
        index: usize,
        call: controller::Call<CreateVolumeRequest, Arc<PinnedRequest>>,
    ) {
        let (run, claim) = match &self.process.attempts.running[index].attempt {
            Attempt::Claim(run) => (run, run.claim().cloned()),
            Attempt::Volume(_) | Attempt::Source(_) => unreachable!("no volume is made for it"),
        };
        let (gone, claim) = (run.is_gone(), claim.unwrap());
        let (key, uid) = (ClaimKey::of(&claim), claim.uid.clone());
        let request = &*call;
        let name = &request.name;
        let same = Kind::Create(name.clone());
        if { self.driver.running.iter() }.any(|call| call.awaited && call.kind == same) {
            self.complain(format!("two CreateVolume calls at once for {name}"));
        }
        if needs_secret(&request.parameters) && request.secrets.is_empty() {
            self.complain(format!("CreateVolume of {name} without its Secret"));
        }
        self.complain_about_spinning(request);
        self.check_protected(name, request);
        let names = self.names.entry(uid.clone()).or_default();
        if !names.contains(name) {
            names.insert(name.clone());
        }
        let durable = self.server.intents().any(|held| *held == *uid);
        // Somebody may have removed the entry while the process ran, which still makes the call; its successor may send
        // another request.
        let given_up = self.excused.contains(&format!("pvc-{uid}"));
        if self.journals() && !durable && !given_up {
            self.complain(format!("CreateVolume of {name} is not in the journal"));
        }
        if given_up {
            self.driver.forget(name);
        }
        // The volume of an unsettled request may be made once more, to be deleted.
        let needless = gone || !claim.volume.is_empty();
        let settles = needless && self.process.in_flight().has_unknown_outcome(&key.uid);
        let moved = self.is_moved(index, &call.about, &claim);
        if settles || moved {
            self.unseen.insert((self.driver.site, name.clone()));
        }
        match self.driver.create(request, settles || moved) {
            Ok(id) => {
                let step = Step::Ask(Request::Call(Call::Create(call)));
                self.process.attempts.enter(index, State::Calling(step, id));
            }
            Err(refused) => {
                if refused == Refused::Different {
                    self.complain(format!("CreateVolume of {name} repeated as another one"));
                }
                let error = CallError::Failed(rpc(refused.code()));
                let called = Called::Create(call, Err(error));
                self.reply(index, Reply::Call(called, Duration::ZERO));
            }
        }
    }

    /// Whether the previous request was for a node that has been gone since, and is unsettled.
    fn is_moved(&self, index: usize, prepared: &Arc<PinnedRequest>, claim: &Claim) -> bool {
        let attempt = &self.process.attempts.running[index].attempt;
        let Attempt::Claim(run) = attempt else {
            return false;
        };
        let Some(attempt) = run.attempt() else {
            return false;
        };
        let open = self.driver.open.get(&prepared.name);
        let unsettled = attempt.intent(claim, prepared).unsettled;
        unsettled.iter().any(|unsettled| {
            let away = !unsettled.node.is_empty() && self.away.contains(&zone(&unsettled.node));
            away && open == Some(&unsettled.request(BTreeMap::new()))
        })
    }

    /// Whether the call gets no answer.
    fn is_silent(&self, prepared: &PinnedRequest) -> bool {
        let node = &prepared.node;
        !node.is_empty() && self.driver.silent.contains(&zone(node))
    }

    /// No process repeats a request again and again without a pause and without new information. Several unsettled
    /// requests of one claim count separately.
    fn complain_about_spinning(&mut self, request: &CreateVolumeRequest) {
        let asked = self
            .asked
            .entry((self.process.site, format!("{request:?}")));
        let asked = asked.or_default();
        *asked += 1;
        if *asked > MOST_ASKED {
            self.complain(format!("{} is asked for again and again", request.name));
        }
    }

    /// A source must not go meanwhile.
    fn check_protected(&mut self, name: &str, request: &CreateVolumeRequest) {
        let is_it = |claim: &Claim| format!("pvc-{}", claim.uid) == *name;
        if !{ self.server.claims.values() }.any(|(_, claim)| is_it(claim)) {
            return;
        }
        let source = request.volume_content_source.as_ref();
        let Some(Type::Volume(source)) = source.and_then(|source| source.r#type.as_ref()) else {
            return;
        };
        let id = source.volume_id.as_str();
        let mut volumes = self.server.volumes.values();
        let volume =
            volumes.find(|(_, volume)| handle(volume).is_some_and(|held| is_same(held, id)));
        let owner = volume.and_then(|(_, volume)| volume.claim.as_ref());
        let mut claims = self.server.claims.values().map(|(_, claim)| claim);
        let claim = claims.find(|claim| owner.is_some_and(|owner| owner.uid == claim.uid));
        if let Some(claim) = claim.filter(|claim| !claim.has_finalizer(CLONE_FINALIZER)) {
            let source = claim.name.clone();
            self.complain(format!("{name} made from {source}, which is not protected"));
        }
    }

    /// The driver answers, or the deadline expires.
    pub(super) fn end_create_call(
        &mut self,
        prepared: &PinnedRequest,
        id: u64,
    ) -> Result<CreateVolumeResponse, RpcError> {
        let new = self.faulty() && self.driver.new > 0;
        self.driver.new = self.driver.new.saturating_sub(1);
        match self.faulty() && self.dice.one_in(3) {
            _ if self.is_silent(prepared) => {
                self.driver.abandon(id);
                self.driver.fail(id);
                Err(rpc(Code::Unavailable))
            }
            _ if new && !self.dice.one_in(4) => self.refuse(id),
            false => self.created(id, 1 << 30),
            true => match self.dice.below(6) {
                0 => {
                    self.driver.abandon(id);
                    self.driver.new = 6;
                    Err(rpc(Code::DeadlineExceeded))
                }
                1 | 2 => {
                    self.created(id, 1 << 30).ok();
                    self.driver.new = 6;
                    Err(rpc(Code::Unavailable))
                }
                3 => self.created(id, 1),
                _ => {
                    if self.driver.fail(id) {
                        let codes = [
                            Code::Internal,
                            Code::InvalidArgument,
                            Code::ResourceExhausted,
                        ];
                        Err(rpc(codes[self.dice.below(3)]))
                    } else {
                        Err(rpc(Code::Aborted))
                    }
                }
            },
        }
    }

    /// The driver refuses before it has looked.
    fn refuse(&mut self, id: u64) -> Result<CreateVolumeResponse, RpcError> {
        let name = match self.driver.call(id).map(|call| &call.kind) {
            Some(Kind::Create(name)) => name.clone(),
            Some(Kind::Delete(_)) | None => String::new(),
        };
        if self.driver.refuse(id) {
            self.unseen.insert((self.driver.site, name));
        }
        let codes = [
            Code::Unknown,
            Code::Internal,
            Code::NotFound,
            Code::PermissionDenied,
            Code::FailedPrecondition,
            Code::ResourceExhausted,
        ];
        // Where there are other topologies, a lack of capacity is the interesting error.
        let full = self.case.scene == Scene::Topology && self.dice.one_in(2);
        Err(rpc(if full {
            Code::ResourceExhausted
        } else {
            codes[self.dice.below(codes.len())]
        }))
    }

    /// The driver makes the volume if it can, and reports this size.
    fn created(&mut self, id: u64, bytes: i64) -> Result<CreateVolumeResponse, RpcError> {
        if let Some(code) = self.obstacle(id) {
            self.driver.fail(id);
            return Err(rpc(code));
        }
        let call = self.driver.call(id);
        let sourced = call.is_some_and(|call| call.source.is_some());
        let volume_id = self.driver.succeed(id).unwrap();
        self.check_doubles();
        // The size stays the same when the request is repeated.
        let size = self.driver.sizes.entry(volume_id.clone());
        let bytes = *size.or_insert(bytes);
        let context = self.context(&volume_id);
        let zone = self.driver.zone(&volume_id);
        let segments = |zone: &String| Topology {
            segments: [(ZONE.to_owned(), zone.clone())].into_iter().collect(),
        };
        let accessible_topology = zone.map(segments).into_iter().collect();
        Ok(CreateVolumeResponse {
            volume: Some(Volume {
                volume_id: self.driver.spelled(&volume_id),
                capacity_bytes: bytes,
                volume_context: context,
                accessible_topology,
                content_source: sourced.then(VolumeContentSource::default),
            }),
        })
    }

    /// The volume context, the same each time: for some volumes with a partition that the API server rejects in the
    /// PersistentVolume of a plugin.
    fn context(&mut self, id: &str) -> BTreeMap<String, String> {
        let may = self.case.scene == Scene::Moved && self.faulty();
        let untranslatable = may && self.dice.one_in(4);
        let known = self.driver.untranslatable.entry(id.to_owned());
        if *known.or_insert(untranslatable) {
            BTreeMap::from([("partition".to_owned(), "300".to_owned())])
        } else {
            BTreeMap::new()
        }
    }

    /// Why the driver cannot fulfil the request, if it cannot.
    pub(super) fn obstacle(&self, id: u64) -> Option<Code> {
        let call = self.driver.call(id)?;
        if matches!(call.kind, Kind::Delete(_)) || self.driver.exists(call) {
            return None;
        }
        let missing = match &call.source {
            None => false,
            Some(Type::Volume(source)) => !self.driver.has(&source.volume_id),
            Some(Type::Snapshot(source)) => {
                let mut snapshots = self.server.snapshots.values();
                !snapshots.any(|snapshot| *snapshot.uid == *source.snapshot_id)
            }
        };
        if missing {
            Some(Code::NotFound)
        } else {
            (!self.driver.has_capacity(call)).then_some(Code::ResourceExhausted)
        }
    }

    /// No claim has two volumes, except for those that a driver has refused to know of, and those of unsettled requests
    /// on a node whose provisioner has removed it as selected node.
    pub(super) fn check_doubles(&mut self) {
        let doubled = self.names.iter().find(|(uid, names)| {
            let exist = |name: &String| {
                // A volume that somebody gave up may be made elsewhere as well.
                if self.excused.contains(name) {
                    return 0;
                }
                let sites = self.drivers();
                let seen = sites.filter(|driver| {
                    !self.unseen.contains(&(driver.site, name.clone()))
                        && !self.is_unsettled_elsewhere(driver.site, uid)
                });
                seen.map(|driver| driver.named(name).count()).sum::<usize>()
            };
            names.iter().map(exist).sum::<usize>() > 1
        });
        if let Some((uid, _)) = doubled {
            self.complain(format!("two volumes for the claim {uid}"));
        }
    }

    /// Whether the provisioner of this site's node has given up the claim, which may have another selected node now,
    /// and its journal has an intent for it.
    fn is_unsettled_elsewhere(&self, site: usize, uid: &str) -> bool {
        let Some(node) = self.case.scene.node(site) else {
            return false;
        };
        let nodes = self.server.unselected.get(uid);
        if !nodes.is_some_and(|nodes| nodes.contains(&node.name)) {
            return false;
        }
        let mut claims = self.server.claims.values();
        let selected = claims.find(|(_, claim)| *claim.uid == *uid);
        selected.is_some_and(|(_, claim)| claim.selected_node() != &*node.name)
            && self
                .server
                .intents_of(&node.name)
                .any(|unsettled| unsettled == uid)
    }

    /// DeleteVolume of an unusable volume.
    pub(super) fn discard(
        &mut self,
        call: &controller::Call<DeleteVolumeRequest, Discard>,
    ) -> Result<DeleteVolumeResponse, CallError> {
        if self.mutant == Mutant::LeavesUntranslatable && call.about.migrated.0 {
            return Ok(DeleteVolumeResponse {});
        }
        let asked = call.about.intent.as_ref().map(|(asked, _)| asked);
        if !asked.is_some_and(|asked| self.may_call(asked)) {
            return Err(CallError::Unreachable(rpc(Code::Unavailable)));
        }
        let code = match self.driver.delete(&call.volume_id) {
            Err(refused) => refused.code(),
            Ok(id) if self.faulty() && self.dice.one_in(3) => {
                if self.dice.one_in(2) {
                    self.driver.abandon(id);
                    Code::DeadlineExceeded
                } else {
                    self.driver.fail(id);
                    Code::Internal
                }
            }
            Ok(id) => {
                self.driver.succeed(id);
                return Ok(DeleteVolumeResponse {});
            }
        };
        Err(CallError::Failed(rpc(code)))
    }
}
