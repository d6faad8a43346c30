//! Passes changes to the controller; mutants miss some.

use sidecar::controller::reactor::{Now, Reactor};
use sidecar::kube::cache::store;
use sidecar_testkit::sim::informer::parts;
use snapshot_controller::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Snapshot, Volume,
};
use snapshot_controller::plan::in_flight::Key;
use snapshot_controller::plan::reactor::{Change, Controller as Shipped, Update};
use snapshot_controller::plan::request::{Object, Reply, Request as Decided};

use super::super::mutant::Mutant;
use super::super::process::Dues;
use super::Controller;

impl Controller {
    pub(super) fn snapshot(
        &self,
        of: &mut Shipped,
        change: &store::Change<Snapshot>,
    ) -> Dues<Self> {
        let (_, old, new, own) = parts(change);
        if new.is_none() && self.mutant == Mutant::RemembersWhatIsGone {
            return Vec::new();
        }
        let [old, new] = [old, new].map(|one| one.map(|one| self.mutant.hears_snapshot(one)));
        let (old, new) = (old.as_deref(), new.as_deref());
        vec![of.observe(Change::Snapshot(Update { old, new, own }), self)]
    }

    pub(super) fn group(&self, of: &mut Shipped, change: &store::Change<Group>) -> Dues<Self> {
        let (_, old, new, own) = parts(change);
        vec![of.observe(Change::Group(Update { old, new, own }), self)]
    }

    pub(super) fn group_content(
        &self,
        of: &mut Shipped,
        change: &store::Change<GroupContent>,
    ) -> Dues<Self> {
        let (_, old, new, own) = parts(change);
        if self.mutant == Mutant::ControllerOverhearsGroupContents {
            return Vec::new();
        }
        vec![of.observe(Change::GroupContent(Update { old, new, own }), self)]
    }

    pub(super) fn group_class(
        &self,
        of: &mut Shipped,
        change: &store::Change<GroupClass>,
    ) -> Dues<Self> {
        let (key, ..) = parts(change);
        if self.mutant == Mutant::ForgetsTriggers {
            return Vec::new();
        }
        vec![of.observe(Change::GroupClass(key), self)]
    }

    pub(super) fn content(&self, of: &mut Shipped, change: &store::Change<Content>) -> Dues<Self> {
        let (_, old, new, own) = parts(change);
        if self.mutant == Mutant::ControllerOverhearsContents {
            return Vec::new();
        }
        vec![of.observe(Change::Content(Update { old, new, own }), self)]
    }

    pub(super) fn claim(&self, of: &mut Shipped, change: &store::Change<Claim>) -> Dues<Self> {
        let (key, old, new, own) = parts(change);
        let (old, new) = (self.mutant.hears_claim(old), self.mutant.hears_claim(new));
        let (old, new) = (old.as_ref(), new.as_ref());
        vec![of.observe(Change::Claim(key, Update { old, new, own }), self)]
    }

    pub(super) fn class(&self, of: &mut Shipped, change: &store::Change<Class>) -> Dues<Self> {
        let (key, ..) = parts(change);
        if self.mutant == Mutant::ForgetsTriggers {
            return Vec::new();
        }
        // If one of two defaults goes, the other one counts.
        vec![of.observe(Change::Class(key), self)]
    }

    pub(super) fn volume(&self, of: &mut Shipped, change: &store::Change<Volume>) -> Dues<Self> {
        let (key, _, new, _) = parts(change);
        let new = new.filter(|_| self.mutant != Mutant::ForgetsTriggers);
        let due = new.map(|_| of.observe(Change::Volume(key), self));
        due.into_iter().collect()
    }

    /// A mutant ends a write to a claim as soon as it begins, so that others do not wait for it. It pretends that
    /// another attempt has noticed the end.
    pub(super) fn end_early(&self, of: &mut Shipped, (key, now): (&Key, Now), request: &Decided) {
        if let (Mutant::WritesAtOnce, Decided::Write(write)) = (self.mutant, request)
            && matches!(write.object, Object::Claim(_))
        {
            let mut other = of.begin(key, self, now);
            let _ = of.answered(&mut other, Reply::Write(write.clone(), Ok(None)), self);
        }
    }
}
