//! `csi-snapshotter`: its caches and its requests. It runs the controller that ships twice in one
//! process, for single snapshots and for groups.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

mod both;

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::reactor::{DueOf, Now, Reactor};
use sidecar::controller::request::SecretError;
use sidecar::controller::{CallError, Calls as _};
use sidecar::kube::cache::store;
use sidecar::text::Text;
use sidecar_testkit::sim::attempts::{Simulated, VerdictOf};
use sidecar_testkit::sim::informer::parts;
use sidecar_testkit::sim::storage::{Wish, plain};
use snapshotter::model::{Class, Content, Policy};
use snapshotter::plan::driver::Abilities;
use snapshotter::plan::outcome::RpcError;
use snapshotter::plan::reactor::Change;
use snapshotter::plan::request::{Call, Called, Reply, Request as Decided};
use snapshotter::plan::settings::Name;
use snapshotter::plan::{Driver, Informers, Settings, Snapshotter as Shipped};
use tonic::Code;

use super::kind::{Kind, Server, Watch};
use super::mutant::Mutant;
use super::objects::{BINARY, DRIVER, value_of};
use super::process::{Act, Dues, Failure, Note, Process, Program, Warning};
use super::request::Request;
use super::world::World;

pub(super) use both::Both;

/// The differences between single snapshots and groups.
pub(super) trait Sort: Sized + 'static {
    const CONTENT: Kind;
    const CLASS: Kind;
    const WATCHED: &'static [Kind];
    /// What csi-snapshotter calls them.
    const SORT: snapshotter::model::Kind;
    /// Prefix of the names of snapshots.
    const PREFIX: &'static str;

    fn of(world: &mut World) -> &mut Process<Snapshotter<Self>>;
}

pub(super) struct Single;
pub(super) struct Grouped;

impl Sort for Single {
    const CONTENT: Kind = Kind::Content;
    const CLASS: Kind = Kind::Class;
    const WATCHED: &'static [Kind] = &[Kind::Content, Kind::Class];
    const SORT: snapshotter::model::Kind = snapshotter::model::Kind::Single;
    const PREFIX: &'static str = "snapshot";

    fn of(world: &mut World) -> &mut Process<Snapshotter<Self>> {
        &mut world.snapshotter.single
    }
}

impl Sort for Grouped {
    const CONTENT: Kind = Kind::GroupContent;
    const CLASS: Kind = Kind::GroupClass;
    const WATCHED: &'static [Kind] = &[Kind::GroupContent, Kind::GroupClass];
    const SORT: snapshotter::model::Kind = snapshotter::model::Kind::Group;
    const PREFIX: &'static str = "groupsnapshot";

    fn of(world: &mut World) -> &mut Process<Snapshotter<Self>> {
        &mut world.snapshotter.grouped
    }
}

pub(super) struct Snapshotter<S> {
    mutant: Mutant,
    /// Whether it is an older release, which adds no finalizer, but removes it.
    pub(super) older: bool,
    driver: Arc<Driver>,
    pub(super) contents: Watch<Content>,
    classes: Watch<Class>,
    sort: PhantomData<S>,
}

impl<S: Sort> Informers for Snapshotter<S> {
    fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    fn content(&self, name: &Text) -> Option<Arc<Content>> {
        let content = self.contents.store.get(name)?;
        let mut seen = self.mutant.sees(content);
        if self.older && !seen.deleting && !seen.is_protected() {
            let held = seen.finalizers.iter().cloned();
            let held = held.chain([seen.kind().finalizer().into()]).collect();
            Arc::make_mut(&mut seen).finalizers = held;
        }
        Some(seen)
    }

    fn class(&self, name: &Text) -> Option<Arc<Class>> {
        let class = self.classes.store.get(name)?;
        Some(self.mutant.sees_class(class))
    }
}

impl<S: Sort> Snapshotter<S> {
    fn content(&self, of: &mut Shipped, change: &store::Change<Content>) -> Dues<Self> {
        let (name, old, new, own) = parts(change);
        let overheard = self.mutant.overhears() && old.is_some();
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
        let due = of.observe(Change::Class { name, old, new }, self);
        let hears = self.mutant.hears_of_classes();
        if hears { vec![due] } else { Vec::new() }
    }
}

impl<S: Sort> Simulated for Snapshotter<S> {
    type Reactor = Shipped;
    type Object = Text;
    type Waiting = Infallible;
    type Note = Note;
}

impl<S: Sort> Program for Snapshotter<S> {
    const WATCHED: &'static [Kind] = S::WATCHED;
    const WHO: usize = 1;

    fn is_of_group(_name: &Text) -> bool {
        S::CONTENT == Kind::GroupContent
    }

    fn reactor() -> Shipped {
        let settings = Settings {
            name: Name {
                prefix: S::PREFIX.to_owned(),
                length: None,
            },
            topology: true,
            ..Settings::default()
        };
        Shipped::new(S::SORT, &settings)
    }

    fn new(mutant: Mutant) -> Self {
        Self {
            mutant,
            older: false,
            driver: Arc::new(Driver {
                name: DRIVER.to_owned(),
                abilities: Abilities {
                    list: true,
                    get: false,
                    group: true,
                    topology: true,
                },
            }),
            contents: Watch::new(S::CONTENT),
            classes: Watch::new(S::CLASS),
            sort: PhantomData,
        }
    }

    fn informers(&self) -> &(dyn Informers + 'static) {
        self
    }

    fn is_synced(&self) -> bool {
        self.contents.listed && self.classes.listed
    }

    fn news(&self, server: &Server) -> Vec<Kind> {
        let all = [self.contents.news(server), self.classes.news(server)];
        all.into_iter().flatten().collect()
    }

    fn watch(&mut self, of: &mut Shipped, from: (Kind, &Server, bool)) -> Dues<Self> {
        let (kind, server, breaks) = from;
        let mut dues = Vec::new();
        if kind == S::CONTENT {
            let changes = self.contents.next(server, breaks);
            dues.extend(changes.iter().flat_map(|change| self.content(of, change)));
        } else if kind == S::CLASS {
            let changes = self.classes.next(server, breaks);
            dues.extend(changes.iter().flat_map(|change| self.class(of, change)));
        }
        dues
    }

    fn begin_write(&mut self, (kind, key): (Kind, &Text)) {
        if kind == S::CONTENT {
            self.contents.begin_write(key);
        }
    }

    fn end_write(
        &mut self,
        of: &mut Shipped,
        (kind, key): (Kind, &Text),
        json: Option<&str>,
    ) -> Dues<Self> {
        if kind != S::CONTENT {
            return Vec::new();
        }
        let json = json.filter(|_| self.mutant.knows_its_writes());
        let change = self.contents.end_write(key, json);
        let dues = change.map(|change| self.content(of, &change));
        dues.unwrap_or_default()
    }

    fn decided(&self, _: &mut Shipped, (name, _): (&Text, Now), request: Decided) -> Decided {
        let content = self.contents.store.get(name);
        self.mutant
            .snapshotter_wants(request, name, content.map(|known| &**known))
    }

    fn retries(&self, verdict: &VerdictOf<Self>) -> bool {
        self.mutant.retries(verdict)
    }

    fn judges(&self, verdict: VerdictOf<Self>) -> VerdictOf<Self> {
        self.mutant.judges(verdict)
    }

    fn hurries(&self, verdict: &VerdictOf<Self>) -> Option<Duration> {
        self.mutant.hurries(verdict)
    }

    fn is_unwanted(&self, name: &Text) -> bool {
        let content = self.contents.store.get(name);
        content.is_none_or(|content| content.deleting || is_kept(content))
    }

    fn wakes(&self, _name: &Text) -> bool {
        true
    }

    fn warnings(_due: &DueOf<Shipped>) -> Vec<Warning> {
        Vec::new()
    }

    fn act(request: &Decided) -> Act {
        match request {
            Decided::Get(name) => Act::Api(Request::Read(S::CONTENT, name.clone())),
            Decided::Write(write) => {
                Act::Api(Request::write(S::CONTENT, write.object.clone(), write))
            }
            Decided::Event(_) => Act::Tell,
            Decided::Secret(secret) => {
                let key = format!("{}/{}", secret.namespace, secret.name);
                Act::Api(Request::Read(Kind::Secret, key.into()))
            }
            Decided::Call(call) => Act::Call(match call {
                Call::Create(call) => Wish::Create(call.name.clone()),
                Call::CreateGroup(call) => Wish::Create(call.name.clone()),
                Call::Delete(call) => Wish::Delete(plain(&call.snapshot_id).into()),
                Call::DeleteGroup(call) => Wish::Delete(call.group_snapshot_id.as_str().into()),
                Call::List(_) | Call::Get(_) | Call::GetGroup(_) => return Act::List,
            }),
        }
    }

    fn about(reply: &Reply) -> Option<(Kind, Text)> {
        match reply {
            Reply::Get(name, _) => Some((S::CONTENT, name.clone())),
            Reply::Write(write, _) => Some((S::CONTENT, write.object.clone())),
            Reply::Secret(..) | Reply::Call(..) | Reply::Event(_) => None,
        }
    }

    fn answered(request: Decided, came: Result<Text, Failure>) -> Reply {
        match (request, came) {
            (Decided::Get(name), Ok(_)) => Reply::Get(name, Ok(())),
            (Decided::Write(write), Ok(_)) => Reply::Write(write, Ok(())),
            (Decided::Secret(secret), Ok(json)) => {
                let text = !json.contains(BINARY);
                let value = value_of(&secret.name).to_owned();
                let values = [("u".to_owned(), value)].into();
                Reply::Secret(secret, text.then_some(values).ok_or(SecretError::NotText))
            }
            (request, Err(failure)) => request.refused(failure.into()),
            (Decided::Call(_) | Decided::Event(_), Ok(_)) => {
                unreachable!("no request to the API server")
            }
        }
    }

    fn said(&self, name: &Text, reply: Reply) -> Reply {
        let content = self.contents.store.get(name).map(|known| &**known);
        self.mutant.snapshotter_hears(reply, content)
    }

    fn of(world: &mut World) -> &mut Process<Self> {
        S::of(world)
    }

    fn hold(world: &mut World, name: &Text, request: &Decided) {
        world.spin_for(name);
        match request {
            Decided::Call(Call::Create(call)) => world.hold_create(name, call),
            Decided::Call(Call::Delete(call)) => world.hold_delete(name, call),
            Decided::Call(Call::CreateGroup(call)) => world.hold_group_create(name, call),
            Decided::Call(Call::DeleteGroup(call)) => world.hold_group_delete(name, call),
            _ => {}
        }
        match request {
            Decided::Call(call) => world.hold_call::<S>(name, call),
            Decided::Write(write) => world.hold_patch::<S>(name, &write.body),
            Decided::Event(event) => world.hold_event(name, &event.announcement),
            Decided::Get(_) | Decided::Secret(_) => {}
        }
    }

    fn call(world: &mut World, name: &Text, (request, id): (Decided, u64)) -> Reply {
        let fails = if S::CONTENT == Kind::GroupContent {
            world.slips(4)
        } else {
            world.is_faulty() && world.dice.one_in(4) || !world.settling && world.dice.one_in(12)
        };
        if fails {
            let code = world.fail::<S>(name, id);
            return Self::refuse(request, code);
        }
        let called = world.succeed::<S>(name, call(request), id);
        Reply::Call(called, Duration::ZERO)
    }

    fn refuse(request: Decided, code: Code) -> Reply {
        Reply::Call(call(request).failed(failed(code)), Duration::ZERO)
    }

    fn away(request: Decided) -> Reply {
        let away = CallError::Unreachable(rpc(Code::Unavailable));
        Reply::Call(call(request).failed(away), Duration::ZERO)
    }

    fn list(world: &mut World, request: Decided) -> Reply {
        if let Decided::Event(event) = request {
            return Reply::Event(event);
        }
        if world.is_faulty() && world.dice.one_in(6) {
            return Self::refuse(request, Code::DeadlineExceeded);
        }
        let called = match call(request) {
            Call::GetGroup(call) => {
                let group = world.shows_group(&call.group_snapshot_id);
                Called::GetGroup(call, group)
            }
            Call::List(call) => {
                let page = world.lists(&call.snapshot_id, &call.starting_token);
                Called::List(call, Ok(page))
            }
            call => unreachable!("the driver lists: {call:?}"),
        };
        Reply::Call(called, Duration::ZERO)
    }
}

/// Whether the content is retained and says that its VolumeSnapshot or group is being deleted.
pub(super) fn is_kept(content: &Content) -> bool {
    content.being_deleted && content.policy == Policy::Retain
}

fn call(request: Decided) -> Call {
    let Decided::Call(call) = request else {
        unreachable!("no call")
    };
    call
}

pub(super) fn failed(code: Code) -> CallError {
    CallError::Failed(rpc(code))
}

fn rpc(code: Code) -> RpcError {
    let message = "simulated".into();
    RpcError { code, message }
}
