//! `snapshot-controller`: its caches and its requests.

mod change;
mod informers;

use std::convert::Infallible;

use sidecar::controller::reactor::{DueOf, Now, Verdict};
use sidecar::controller::request::Body;
use sidecar::text::Text;
use sidecar_testkit::sim::attempts::{Simulated, VerdictOf};
use snapshot_controller::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Snapshot, Volume, key,
};
use snapshot_controller::plan::Informers;
use snapshot_controller::plan::in_flight::Key;
use snapshot_controller::plan::reactor::{Controller as Shipped, Notice};
use snapshot_controller::plan::request::{Object, Reply, Request as Decided, Write};
use tonic::Code;

use super::kind::{Kind, Server, Watch};
use super::mutant::Mutant;
use super::process::{Act, Dues, Failure, Note, Process, Program, Warning};
use super::request::Request;
use super::world::World;

/// The error of a group whose selector matches no claims.
const NONE_SELECTED: &str = "not applied to any PVC";

pub(super) struct Controller {
    mutant: Mutant,
    /// Whether group snapshots are enabled.
    pub(super) serves_groups: bool,
    /// Whether failures are retried without a wake.
    pub(super) backs_off: bool,
    snapshots: Watch<Snapshot>,
    contents: Watch<Content>,
    classes: Watch<Class>,
    pub(super) claims: Watch<Claim>,
    volumes: Watch<Volume>,
    groups: Watch<Group>,
    group_contents: Watch<GroupContent>,
    group_classes: Watch<GroupClass>,
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
            serves_groups: true,
            backs_off: true,
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

    fn decided(&self, of: &mut Shipped, (key, now): (&Key, Now), request: Decided) -> Decided {
        self.end_early(of, (key, now), &request);
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

    fn retries(&self, verdict: &VerdictOf<Self>) -> bool {
        let Verdict::Retry { failure, .. } = verdict else {
            return true;
        };
        // Caches have no labels of claims: only the back-off retries a group without claims.
        let backs_off = self.backs_off || failure.error.contains(NONE_SELECTED);
        backs_off && self.mutant != Mutant::ControllerForgetsRetries
    }

    fn wakes(&self, key: &Key) -> bool {
        self.mutant != Mutant::ForgetsClaims || !matches!(key, Key::Claim(_))
    }

    fn warnings(due: &DueOf<Shipped>) -> Vec<Warning> {
        let told = due.notices.iter().filter_map(|notice| match notice {
            Notice::Event(event) if event.warning => {
                let about = key(&event.about.namespace, &event.about.name);
                Some((event.reason, about, event.message.clone()))
            }
            Notice::Event(_) | Notice::Sample(_) | Notice::InFlight(_) => None,
        });
        told.collect()
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
