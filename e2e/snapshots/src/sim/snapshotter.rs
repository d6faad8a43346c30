//! `csi-snapshotter`: its caches, and the words of its steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{CreateSnapshotResponse, ListSnapshotsResponse, Snapshot};
use sidecar::controller::reactor::Reactor;
use sidecar::kube::cache::store;
use sidecar::text::Text;
use sidecar_testkit::sim::server::{Part, Why};
use sidecar_testkit::sim::storage::Wish;
use snapshotter::model::{Class, Content};
use snapshotter::plan::driver::Abilities;
use snapshotter::plan::outcome::{ApiError, Refusal, RpcError};
use snapshotter::plan::reactor::{Change, Request as Decided};
use snapshotter::plan::step::{Answer, Step};
use snapshotter::plan::{Driver, Informers, Settings, Snapshotter as Shipped};
use tonic::Code;

use super::kind::{Kind, Server};
use super::mutant::Mutant;
use super::objects::DRIVER;
use super::process::{Act, Dues, Failure, Process, Program};
use super::request::{Effect, Request};
use super::watch::{Watch, parts};
use super::world::World;

pub(super) struct Snapshotter {
    mutant: Mutant,
    driver: Arc<Driver>,
    pub(super) contents: Watch<Content>,
    classes: Watch<Class>,
}

impl Informers for Snapshotter {
    fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    fn content(&self, name: &Text) -> Option<Arc<Content>> {
        let content = self.contents.store.get(name)?;
        Some(self.mutant.sees(content))
    }

    fn class(&self, name: &Text) -> Option<Arc<Class>> {
        self.classes.store.get(name).cloned()
    }
}

impl Snapshotter {
    fn content(&self, of: &mut Shipped, change: &store::Change<Content>) -> Dues<Self> {
        let (name, old, new, own) = parts(change);
        let overheard = self.mutant == Mutant::OverhearsContents && old.is_some();
        let due = of.observe(
            Change::Content {
                name,
                old,
                new,
                own,
            },
            self,
        );
        if overheard { Vec::new() } else { vec![due] }
    }

    fn class(&self, of: &mut Shipped, change: &store::Change<Class>) -> Dues<Self> {
        let (name, old, new, _) = parts(change);
        vec![of.observe(Change::Class { name, old, new }, self)]
    }
}

impl Program for Snapshotter {
    type Reactor = Shipped;
    const WATCHED: &'static [Kind] = &[Kind::Content, Kind::Class];
    const WHO: usize = 1;

    fn reactor() -> Shipped {
        Shipped::new(&Settings::default())
    }

    fn new(mutant: Mutant) -> Self {
        Self {
            mutant,
            driver: Arc::new(Driver {
                name: DRIVER.to_owned(),
                abilities: Abilities {
                    list: true,
                    get: false,
                    group: false,
                    topology: false,
                },
            }),
            contents: Watch::new(Kind::Content),
            classes: Watch::new(Kind::Class),
        }
    }

    fn informers(&self) -> &(dyn Informers + 'static) {
        self
    }

    fn is_synced(&self) -> bool {
        self.contents.listed && self.classes.listed
    }

    fn is_current(&self, server: &Server) -> bool {
        self.contents.is_current(server) && self.classes.is_current(server)
    }

    fn watch(&mut self, of: &mut Shipped, from: (Kind, &Server, bool)) -> Dues<Self> {
        let (kind, server, breaks) = from;
        let mut dues = Vec::new();
        match kind {
            Kind::Content => {
                let changes = self.contents.next(server, breaks);
                dues.extend(changes.iter().flat_map(|change| self.content(of, change)));
            }
            Kind::Class => {
                let changes = self.classes.next(server, breaks);
                dues.extend(changes.iter().flat_map(|change| self.class(of, change)));
            }
            Kind::Snapshot | Kind::Claim | Kind::Volume | Kind::Secret => {}
        }
        dues
    }

    fn begin_write(&mut self, (kind, key): (Kind, &Text)) {
        if kind == Kind::Content {
            self.contents.begin_write(key);
        }
    }

    fn end_write(
        &mut self,
        of: &mut Shipped,
        (kind, key): (Kind, &Text),
        json: Option<&str>,
    ) -> Dues<Self> {
        if kind != Kind::Content {
            return Vec::new();
        }
        let change = self.contents.end_write(key, json);
        let dues = change.map(|change| self.content(of, &change));
        dues.unwrap_or_default()
    }

    fn decided(&self, name: &Text, request: Decided) -> Decided {
        let content = self.contents.store.get(name);
        self.mutant
            .snapshotter_wants(request, content.map(|known| &**known))
    }

    fn retries(&self) -> bool {
        self.mutant != Mutant::ForgetsRetries
    }

    fn act(request: &Decided) -> Act {
        let name = request.content.clone();
        match &request.step {
            Step::Read => Act::Api(Request::Read(Kind::Content, name)),
            Step::Patch(_, body) => Act::Api(Request::Patch(
                Kind::Content,
                name,
                Part::Main,
                body.clone(),
            )),
            Step::PatchStatus(_, body) => Act::Api(Request::Patch(
                Kind::Content,
                name,
                Part::Status,
                body.clone(),
            )),
            Step::Announce(_) => Act::Tell,
            Step::LoadSecret(_, of) => {
                let key = format!("{}/{}", of.namespace, of.name);
                Act::Api(Request::Read(Kind::Secret, key.into()))
            }
            Step::Create(call) => Act::Call(Wish::Create(call.name.clone())),
            Step::Delete(call) => Act::Call(Wish::Delete(call.snapshot_id.as_str().into())),
            Step::List(call) => Act::List(call.snapshot_id.as_str().into()),
            Step::Get(_) => unreachable!("the driver lists"),
            Step::CreateGroup(_) | Step::GetGroup(_) | Step::DeleteGroup(_) => {
                unreachable!("there are no groups here")
            }
        }
    }

    fn answered(&self, request: &Decided, came: Result<Text, Failure>) -> Answer {
        let refused = |refusal, message: String| Answer::Refused(ApiError { message, refusal });
        match (&request.step, came) {
            (Step::LoadSecret(..), Ok(_)) => {
                Answer::Secret(BTreeMap::from([("u".to_owned(), "s".to_owned())]))
            }
            (_, Ok(_)) => Answer::Done,
            (_, Err(Failure::Unknown)) => refused(Refusal::Unknown, "no answer".to_owned()),
            (_, Err(Failure::Refused(refusal))) => {
                let kind = match refusal.why {
                    Why::NotFound => Refusal::NotFound,
                    Why::Conflict => Refusal::Conflict,
                    Why::Exists => Refusal::AlreadyExists,
                    Why::Invalid => Refusal::Other,
                };
                refused(kind, refusal.message)
            }
        }
    }

    fn said(&self, request: &Decided, answer: Answer) -> Answer {
        self.mutant.snapshotter_hears(&request.step, answer)
    }

    fn told(&self) -> Answer {
        Answer::Done
    }

    fn of(world: &mut World) -> &mut Process<Self> {
        &mut world.snapshotter
    }

    fn hold(world: &mut World, name: &Text, request: &Decided) {
        match &request.step {
            Step::Create(call) => world.hold_create(name, call),
            Step::Delete(call) => world.hold_delete(name, call),
            Step::Read
            | Step::Patch(..)
            | Step::PatchStatus(..)
            | Step::Announce(_)
            | Step::LoadSecret(..)
            | Step::List(_)
            | Step::Get(_)
            | Step::CreateGroup(_)
            | Step::GetGroup(_)
            | Step::DeleteGroup(_) => {}
        }
    }

    fn call(world: &mut World, request: &Decided, id: u64) -> Answer {
        let name = &request.content;
        let fails = world.is_faulty() && world.dice.one_in(4);
        if fails {
            return Answer::Failed(rpc(world.fail(name, id)));
        }
        let taken = world.taken();
        let call = world.ends(id, true, taken);
        let Wish::Create(wished) = call.wish else {
            world.did(name, Effect::Removes);
            return Answer::Deleted;
        };
        let Some(handle) = world.storage.named(&wished).cloned() else {
            return Answer::Failed(rpc(Code::Internal));
        };
        world.did(name, Effect::Takes);
        let found = world.storage.snapshots.get_mut(&handle).unwrap();
        let snapshot = Some(shown(&handle, found.size, found.unready == 0));
        found.unready = found.unready.saturating_sub(1);
        Answer::Created(CreateSnapshotResponse { snapshot })
    }

    fn refuse(_request: &Decided, code: Code) -> Answer {
        Answer::Failed(rpc(code))
    }

    fn away(_request: &Decided) -> Answer {
        Answer::Unreachable(rpc(Code::Unavailable))
    }

    fn list(world: &mut World, handle: &Text) -> Answer {
        if world.is_faulty() && world.dice.one_in(6) {
            return Answer::Failed(rpc(Code::DeadlineExceeded));
        }
        let found = world.storage.snapshots.get_mut(handle).map(|found| {
            let snapshot = shown(handle, found.size, found.unready == 0);
            found.unready = found.unready.saturating_sub(1);
            Entry {
                snapshot: Some(snapshot),
            }
        });
        Answer::Listed(ListSnapshotsResponse {
            entries: found.into_iter().collect(),
            next_token: String::new(),
        })
    }
}

fn shown(handle: &Text, size: i64, ready: bool) -> Snapshot {
    Snapshot {
        snapshot_id: handle.to_string(),
        size_bytes: size,
        ready_to_use: ready,
        ..Snapshot::default()
    }
}

fn rpc(code: Code) -> RpcError {
    let message = "simulated".into();
    RpcError { code, message }
}
