//! The answers of ListSnapshots.

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{ListSnapshotsResponse, Snapshot};
use sidecar::text::Text;
use sidecar_testkit::sim::storage::{full, plain};

use super::super::world::World;
use super::{ANOTHER, shown, there};

/// The size of others' snapshots, which none in storage has.
const OTHER_SIZE: i64 = 77;

impl World {
    /// Answers ListSnapshots for one handle, which the driver may spell differently. In a crowded cluster it always
    /// does so for some handles, lists snapshots of others besides, and begins with a page without the snapshot.
    pub(in super::super) fn lists(&mut self, handle: &str, token: &str) -> ListSnapshotsResponse {
        let spelled = if self.crowded {
            plain(handle).ends_with(['2', '5', '8'])
        } else {
            self.dice.one_in(4)
        };
        // In another spelling only a snapshot that is listed alone is known to be the one.
        let alone = spelled || !self.crowded;
        let others = !alone && self.dice.one_in(3);
        let early = !alone && token.is_empty() && self.dice.one_in(3);
        let mut snapshots: Vec<Snapshot> = Vec::new();
        if others {
            snapshots.extend([1, 2].map(|number| {
                let handle = Text::from(format!("{ANOTHER}-{number}"));
                shown(&handle, OTHER_SIZE, true)
            }));
        }
        if !early {
            snapshots.extend(self.listed(handle, spelled));
        }
        if self.crowded {
            for snapshot in &mut snapshots {
                snapshot.accessible_topology = there();
            }
        }
        let entry = |snapshot| Entry {
            snapshot: Some(snapshot),
        };
        ListSnapshotsResponse {
            entries: snapshots.into_iter().map(entry).collect(),
            next_token: if early { "2" } else { "" }.to_owned(),
        }
    }

    /// The snapshot with this handle, in one spelling or the other; a member of a group is listed late.
    fn listed(&mut self, handle: &str, spelled: bool) -> Option<Snapshot> {
        if let Some(member) = self.groups.members.get_mut(handle) {
            let late = member.hidden > 0;
            member.hidden = member.hidden.saturating_sub(1);
            return (!late).then(|| member.shown(&handle.into()));
        }
        let handle = plain(handle);
        let found = self.storage.snapshots.get_mut(handle)?;
        let mut snapshot = shown(&handle.into(), found.size, found.unready == 0);
        if spelled {
            snapshot.snapshot_id = full(handle);
        }
        found.unready = found.unready.saturating_sub(1);
        Some(snapshot)
    }
}
