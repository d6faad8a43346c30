//! Which changes of contents requeue them.
//!
//! This decides how often the driver is called: the snapshotter's own writes must not requeue the
//! content, or every failure would be retried at once.

use crate::model::{Content, Topology};

/// Whether the change from `before` to `after` requeues the content.
///
/// `own`: the change is the response to a request of this process, which sees the result anyway;
/// then only changes that others may have made count, unless they were seen before.
#[must_use]
pub fn is_work(before: Option<&Content>, after: &Content, own: bool) -> bool {
    let Some(before) = before.filter(|before| before.uid == after.uid) else {
        return true;
    };
    let mut seen = Content {
        version: after.version,
        // Finalizers of other programs do not concern the snapshotter.
        finalizers: after.finalizers.clone(),
        ..before.clone()
    };
    if own {
        seen.status = after.status.clone();
        seen.being_created = after.being_created;
        seen.topology = own_topology(before, after);
        seen.marked_again = after.marked_again;
    }
    seen != *after
}

/// The topology annotations before the change, with the one that this program writes taken from
/// `after`.
fn own_topology(before: &Content, after: &Content) -> Option<Box<Topology>> {
    let accessible = after
        .topology
        .as_ref()
        .and_then(|now| now.accessible.clone());
    let allowed = before.topology.as_ref().and_then(|had| had.allowed.clone());
    let topology = Topology {
        allowed,
        accessible,
    };
    (topology != Topology::default()).then(|| Box::new(topology))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{content, status};

    /// Section 3.2, and the same for changes by others.
    #[test]
    fn the_filter() {
        type Row = (&'static str, fn(&mut Content), bool, bool);
        let rows: [Row; 11] = [
            ("version alone", |c| c.version += 1, false, false),
            ("finalizers", |c| c.finalizers = [].into(), false, false),
            ("annotation bd", |c| c.being_deleted = true, true, true),
            ("deletion", |c| c.deleting = true, true, true),
            ("class", |c| c.class = Some("c2".into()), true, true),
            ("bound", |c| c.snapshot.uid = "U2".into(), true, true),
            ("annotation bc", |c| c.being_created = true, true, false),
            ("status", |c| c.status = Some(status(false)), true, false),
            ("ready", |c| c.status = Some(status(true)), true, false),
            (
                "where it is",
                |c| c.topology.get_or_insert_default().accessible = Some("[]".into()),
                true,
                false,
            ),
            (
                "where it shall be",
                |c| c.topology.get_or_insert_default().allowed = Some("[]".into()),
                true,
                true,
            ),
        ];
        for (row, change, watched, own) in rows {
            let before = content();
            let mut after = content();
            change(&mut after);
            assert_eq!(is_work(Some(&before), &after, false), watched, "{row}");
            assert_eq!(is_work(Some(&before), &after, true), own, "{row}, own");
        }
        assert!(is_work(None, &content(), false), "new");
        let mut another = content();
        another.uid = "another".into();
        assert!(is_work(Some(&content()), &another, true), "made anew");
    }
}
