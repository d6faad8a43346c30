//! The results of calls that take effect.

use csi_proto::csi::{CreateSnapshotResponse, CreateVolumeGroupSnapshotResponse};
use sidecar::controller::CallError;
use sidecar::text::Text;
use sidecar_testkit::sim::storage::Wish;
use snapshotter::plan::request::{Call, Called};
use tonic::Code;

use super::super::effect::Effect;
use super::super::snapshotter::{Sort, failed};
use super::super::world::World;
use super::{Done, shown, there};

impl World {
    /// Ends a call with effect.
    pub(in super::super) fn succeed<S: Sort>(
        &mut self,
        content: &Text,
        call: Call,
        id: u64,
    ) -> Called {
        let taken = self.taken();
        let ended = self.ends(id, Done::All, taken);
        match call {
            Call::Delete(call) => {
                self.did::<S>(content, Effect::Removes);
                Called::Delete(call, Ok(Default::default()))
            }
            Call::DeleteGroup(call) => {
                self.did::<S>(content, Effect::Removes);
                Called::DeleteGroup(call, Ok(Default::default()))
            }
            Call::Create(call) => {
                let handle = self.took::<S>(content, &ended.wish);
                let result = handle.map(|handle| self.shows(&handle));
                let answer = result.as_ref().ok();
                let answer = answer.and_then(|answer| answer.snapshot.as_ref());
                let ready = answer.map(|snapshot| snapshot.ready_to_use);
                self.answers::<S>(content, &call.name, ready);
                Called::Create(call, result)
            }
            Call::CreateGroup(call) => {
                let handle = self.took::<S>(content, &ended.wish);
                let result = handle.map(|handle| {
                    let mut group = self.group(&handle);
                    if self.slips(3) {
                        self.misreport(content, &mut group);
                    }
                    let group_snapshot = Some(group);
                    CreateVolumeGroupSnapshotResponse { group_snapshot }
                });
                let answer = result.as_ref().ok();
                let answer = answer.and_then(|answer| answer.group_snapshot.as_ref());
                let ready = answer.map(|group| group.ready_to_use);
                self.answers::<S>(content, &call.name, ready);
                Called::CreateGroup(call, result)
            }
            Call::List(_) | Call::Get(_) | Call::GetGroup(_) => unreachable!("nothing goes on"),
        }
    }

    /// A call whose caller is gone ends.
    pub(in super::super) fn end_orphan(&mut self) -> bool {
        let orphan = self.storage.running.iter().find(|call| !call.awaited);
        let Some(id) = orphan.map(|call| call.id) else {
            return false;
        };
        let done = *self
            .dice
            .of(&[Done::Nothing, Done::Part, Done::All, Done::All]);
        let taken = self.taken();
        self.ends(id, done, taken);
        true
    }

    /// Size of a new snapshot, and how many answers report it as not ready.
    pub(in super::super) fn taken(&mut self) -> (i64, usize) {
        let unready = *self.dice.of(&[0, 0, 1, 3]);
        (i64::try_from(self.dice.below(4)).unwrap(), unready)
    }

    /// The handle of the snapshot that was taken.
    fn took<S: Sort>(&mut self, content: &Text, wish: &Wish) -> Result<Text, CallError> {
        let Wish::Create(wished) = wish else {
            unreachable!("nothing is taken")
        };
        let handle = self.storage.named(wished).cloned();
        let handle = handle.ok_or_else(|| failed(Code::Internal))?;
        self.did::<S>(content, Effect::Takes);
        Ok(handle)
    }

    fn shows(&mut self, handle: &Text) -> CreateSnapshotResponse {
        let found = self.storage.snapshots.get_mut(handle).unwrap();
        let mut snapshot = shown(handle, found.size, found.unready == 0);
        found.unready = found.unready.saturating_sub(1);
        snapshot.accessible_topology = there();
        let snapshot = Some(snapshot);
        CreateSnapshotResponse { snapshot }
    }

    /// Records the driver's answer about a new snapshot: `None` if there is none. It is requested again unless it is
    /// ready and its content has the report.
    fn answers<S: Sort>(&mut self, content: &Text, name: &str, ready: Option<bool>) {
        if ready != Some(true) {
            self.may_repeat(name);
        }
        let attempts = S::of(self).attempts.running.iter_mut();
        for running in attempts.filter(|running| running.key == *content) {
            running.note.untold = ready.map(|_| name.to_owned());
        }
    }

    /// Records the driver's effect for the attempt on a content.
    pub(super) fn did<S: Sort>(&mut self, name: &Text, effect: Effect) {
        let attempts = S::of(self).attempts.running.iter_mut();
        for running in attempts.filter(|running| running.key == *name) {
            running.note.last = Some(effect);
        }
    }
}
