//! `snapshot-controller`: its caches, and its requests.

mod informers;

use std::convert::Infallible;

use sidecar::controller::reactor::Reactor;
use sidecar::controller::request::Body;
use sidecar::kube::cache::store;
use sidecar::text::Text;
use sidecar_testkit::sim::attempts::Simulated;
use sidecar_testkit::sim::informer::parts;
use snapshot_controller::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Snapshot, Volume,
};
use snapshot_controller::plan::Informers;
use snapshot_controller::plan::in_flight::Key;
use snapshot_controller::plan::reactor::{Change, Controller as Shipped};
use snapshot_controller::plan::request::{Object, Reply, Request as Decided, Write};
use tonic::Code;

use super::kind::{Kind, Server, Watch};
use super::mutant::Mutant;
use super::process::{Act, Dues, Failure, Note, Process, Program};
use super::request::Request;
use super::world::World;

pub(super) struct Controller {
    mutant: Mutant,
    snapshots: Watch<Snapshot>,
    contents: Watch<Content>,
    classes: Watch<Class>,
    pub(super) claims: Watch<Claim>,
    volumes: Watch<Volume>,
    groups: Watch<Group>,
    group_contents: Watch<GroupContent>,
    group_classes: Watch<GroupClass>,
}

impl Controller {
    fn snapshot(&self, of: &mut Shipped, change: &store::Change<Snapshot>) -> Dues<Self> {
        let (_, old, new, own) = parts(change);
        vec![of.observe(Change::Snapshot { old, new, own }, self)]
    }

    fn group(&self, of: &mut Shipped, change: &store::Change<Group>) -> Dues<Self> {
        let (_, old, new, own) = parts(change);
        vec![of.observe(Change::Group { old, new, own }, self)]
    }

    fn group_content(&self, of: &mut Shipped, change: &store::Change<GroupContent>) -> Dues<Self> {
        let (_, old, new, own) = parts(change);
        if self.mutant == Mutant::ControllerOverhearsGroupContents {
            return Vec::new();
        }
        vec![of.observe(Change::GroupContent { old, new, own }, self)]
    }

    fn group_class(&self, of: &mut Shipped, change: &store::Change<GroupClass>) -> Dues<Self> {
        let (key, _, new, _) = parts(change);
        let due = new.map(|_| of.observe(Change::GroupClass(key), self));
        due.into_iter().collect()
    }

    fn content(&self, of: &mut Shipped, change: &store::Change<Content>) -> Dues<Self> {
        let (_, old, new, own) = parts(change);
        if self.mutant == Mutant::ControllerOverhearsContents {
            return Vec::new();
        }
        vec![of.observe(Change::Content { old, new, own }, self)]
    }

    fn claim(&self, of: &mut Shipped, change: &store::Change<Claim>) -> Dues<Self> {
        let (key, old, new, _) = parts(change);
        let (old, new) = (self.mutant.hears_claim(old), self.mutant.hears_claim(new));
        let (old, new) = (old.as_ref(), new.as_ref());
        vec![of.observe(Change::Claim { key, old, new }, self)]
    }

    fn class(&self, of: &mut Shipped, change: &store::Change<Class>) -> Dues<Self> {
        let (key, _, new, _) = parts(change);
        let due = new.map(|_| of.observe(Change::Class(key), self));
        due.into_iter().collect()
    }

    fn volume(&self, of: &mut Shipped, change: &store::Change<Volume>) -> Dues<Self> {
        let (key, _, new, _) = parts(change);
        let due = new.map(|_| of.observe(Change::Volume(key), self));
        due.into_iter().collect()
    }
}

fn object(object: &Object) -> (Kind, Text) {
    match object {
        Object::Snapshot(key) => (Kind::Snapshot, key.clone()),
        Object::Content(name) => (Kind::Content, name.clone()),
        Object::Claim(key) => (Kind::Claim, key.clone()),
        Object::Volume(name) => (Kind::Volume, name.clone()),
        Object::Group(key) => (Kind::Group, key.clone()),
        Object::GroupContent(name) => (Kind::GroupContent, name.clone()),
        Object::Claims(..) => unreachable!("several are read, and nothing else"),
    }
}

impl Simulated for Controller {
    type Reactor = Shipped;
    type Object = Text;
    type Waiting = Infallible;
    type Note = Note;
}

impl Program for Controller {
    const WATCHED: &'static [Kind] = &[
        Kind::Snapshot,
        Kind::Content,
        Kind::Class,
        Kind::Claim,
        Kind::Volume,
        Kind::Group,
        Kind::GroupContent,
        Kind::GroupClass,
    ];
    const WHO: usize = 0;

    fn is_of_group(key: &Key) -> bool {
        matches!(key, Key::Group(_) | Key::GroupContent(_))
    }

    fn reactor() -> Shipped {
        Shipped::default()
    }

    fn new(mutant: Mutant) -> Self {
        Self {
            mutant,
            snapshots: Watch::new(Kind::Snapshot),
            contents: Watch::new(Kind::Content),
            classes: Watch::new(Kind::Class),
            claims: Watch::new(Kind::Claim),
            volumes: Watch::new(Kind::Volume),
            groups: Watch::new(Kind::Group),
            group_contents: Watch::new(Kind::GroupContent),
            group_classes: Watch::new(Kind::GroupClass),
        }
    }

    fn informers(&self) -> &(dyn Informers + 'static) {
        self
    }

    fn is_synced(&self) -> bool {
        self.snapshots.listed
            && self.contents.listed
            && self.classes.listed
            && self.claims.listed
            && self.volumes.listed
            && self.groups.listed
            && self.group_contents.listed
            && self.group_classes.listed
    }

    fn news(&self, server: &Server) -> Vec<Kind> {
        let all = [
            self.snapshots.news(server),
            self.contents.news(server),
            self.classes.news(server),
            self.claims.news(server),
            self.volumes.news(server),
            self.groups.news(server),
            self.group_contents.news(server),
            self.group_classes.news(server),
        ];
        all.into_iter().flatten().collect()
    }

    fn watch(&mut self, of: &mut Shipped, from: (Kind, &Server, bool)) -> Dues<Self> {
        let (kind, server, breaks) = from;
        let mut dues = Vec::new();
        match kind {
            Kind::Snapshot => {
                let changes = self.snapshots.next(server, breaks);
                dues.extend(changes.iter().flat_map(|change| self.snapshot(of, change)));
            }
            Kind::Content => {
                let changes = self.contents.next(server, breaks);
                dues.extend(changes.iter().flat_map(|change| self.content(of, change)));
            }
            Kind::Class => {
                let changes = self.classes.next(server, breaks);
                dues.extend(changes.iter().flat_map(|change| self.class(of, change)));
            }
            Kind::Claim => {
                let changes = self.claims.next(server, breaks);
                dues.extend(changes.iter().flat_map(|change| self.claim(of, change)));
            }
            Kind::Volume => {
                let changes = self.volumes.next(server, breaks);
                dues.extend(changes.iter().flat_map(|change| self.volume(of, change)));
            }
            Kind::Group => {
                let changes = self.groups.next(server, breaks);
                dues.extend(changes.iter().flat_map(|change| self.group(of, change)));
            }
            Kind::GroupContent => {
                let changes = self.group_contents.next(server, breaks);
                let heard = changes
                    .iter()
                    .flat_map(|change| self.group_content(of, change));
                dues.extend(heard);
            }
            Kind::GroupClass => {
                let changes = self.group_classes.next(server, breaks);
                dues.extend(
                    changes
                        .iter()
                        .flat_map(|change| self.group_class(of, change)),
                );
            }
            Kind::Secret => {}
        }
        dues
    }

    fn begin_write(&mut self, (kind, key): (Kind, &Text)) {
        match kind {
            Kind::Snapshot => self.snapshots.begin_write(key),
            Kind::Content => self.contents.begin_write(key),
            Kind::Claim => self.claims.begin_write(key),
            Kind::Volume => self.volumes.begin_write(key),
            Kind::Group => self.groups.begin_write(key),
            Kind::GroupContent => self.group_contents.begin_write(key),
            Kind::Class | Kind::Secret | Kind::GroupClass => {}
        }
    }

    fn end_write(
        &mut self,
        of: &mut Shipped,
        (kind, key): (Kind, &Text),
        json: Option<&str>,
    ) -> Dues<Self> {
        match kind {
            Kind::Snapshot => {
                let change = self.snapshots.end_write(key, json);
                change.map(|change| self.snapshot(of, &change))
            }
            Kind::Content => {
                let change = self.contents.end_write(key, json);
                change.map(|change| self.content(of, &change))
            }
            Kind::Claim => {
                let change = self.claims.end_write(key, json);
                change.map(|change| self.claim(of, &change))
            }
            Kind::Volume => {
                let change = self.volumes.end_write(key, json);
                change.map(|change| self.volume(of, &change))
            }
            Kind::Group => {
                let change = self.groups.end_write(key, json);
                change.map(|change| self.group(of, &change))
            }
            Kind::GroupContent => {
                let change = self.group_contents.end_write(key, json);
                change.map(|change| self.group_content(of, &change))
            }
            Kind::Class | Kind::Secret | Kind::GroupClass => None,
        }
        .unwrap_or_default()
    }

    fn decided(&self, _key: &Key, request: Decided) -> Decided {
        let deleting = |key: &str| {
            let known = self.snapshots.store.get(key);
            known.is_some_and(|snapshot| snapshot.deleting)
        };
        let other = || {
            let mut all = self.snapshots.store.iter();
            all.next().map(|(_, snapshot)| snapshot.uid.clone())
        };
        let other = (self.mutant == Mutant::BindsWrongly).then(other).flatten();
        self.mutant.controller_wants(request, deleting, other)
    }

    fn retries(&self) -> bool {
        self.mutant != Mutant::ControllerForgetsRetries
    }

    fn act(request: &Decided) -> Act {
        Act::Api(match request {
            Decided::Get(Object::Claims(namespace, selector)) => {
                Request::Select(namespace.clone(), selector.clone())
            }
            Decided::Get(of) => {
                let (kind, key) = object(of);
                Request::Read(kind, key)
            }
            Decided::Write(write) => {
                let (kind, key) = object(&write.object);
                Request::write(kind, key, write)
            }
            Decided::Secret(_) | Decided::Call(_) | Decided::Event(_) => {
                unreachable!("there is none")
            }
        })
    }

    fn about(reply: &Reply) -> Option<(Kind, Text)> {
        match reply {
            Reply::Get(Object::Claims(..), _) => None,
            Reply::Get(of, _) => Some(object(of)),
            Reply::Write(write, _) => Some(object(&write.object)),
            Reply::Secret(..) | Reply::Call(..) | Reply::Event(_) => None,
        }
    }

    fn answered(request: Decided, came: Result<Text, Failure>) -> Reply {
        match (request, came) {
            (Decided::Get(of @ (Object::Claim(_) | Object::Claims(..))), Ok(json)) => {
                Reply::Get(of, Ok(Some(json)))
            }
            (Decided::Get(of), Ok(_)) => Reply::Get(of, Ok(None)),
            (Decided::Write(write), Ok(_)) => Reply::Write(write, Ok(None)),
            (request, Err(failure)) => request.refused(failure.into()),
        }
    }

    fn said(&self, _key: &Key, reply: Reply) -> Reply {
        self.mutant.controller_hears(reply)
    }

    fn of(world: &mut World) -> &mut Process<Self> {
        &mut world.controller
    }

    fn hold(world: &mut World, _key: &Key, request: &Decided) {
        let Decided::Write(Write {
            object,
            body: Body::Delete(_),
            ..
        }) = request
        else {
            return;
        };
        let known = &world.controller.known;
        let restored = match object {
            Object::Content(name) => known.is_restored(name),
            Object::GroupContent(name) => known.is_group_restored(name),
            Object::Snapshot(_)
            | Object::Claim(_)
            | Object::Volume(_)
            | Object::Group(_)
            | Object::Claims(..) => false,
        };
        if restored {
            world.complain(format!("{object:?} is deleted and is being restored"));
        }
    }

    fn call(_world: &mut World, _key: &Key, _call: (Decided, u64)) -> Reply {
        unreachable!("it knows no driver")
    }

    fn refuse(_request: Decided, _code: Code) -> Reply {
        unreachable!("it knows no driver")
    }

    fn away(_request: Decided) -> Reply {
        unreachable!("it knows no driver")
    }

    fn list(_world: &mut World, _request: Decided) -> Reply {
        unreachable!("it knows no driver")
    }
}
