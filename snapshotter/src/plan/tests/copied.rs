//! Objects as backup tools and administrators recreate them: contents of pre-provisioned snapshots, with
//! any annotations and finalizers of their earlier object; and short lives.

use super::lines;
use crate::model::{Content, Kind, Policy, Text};
use crate::plan::Settings;
use crate::plan::outcome::Refusal;
use crate::plan::reactor::Notice;
use crate::testing::Answer;
use crate::testing::{
    Bench, Server, group, group_got, listed, pre_provisioned, pre_provisioned_group,
};

const NAME: &str = "pp";

/// The leftovers of the earlier object, and the kind, binding and policy of the content.
#[derive(Clone, Copy, Debug)]
struct Copied {
    kind: Kind,
    being_created: bool,
    being_deleted: bool,
    member: bool,
    finalizer: bool,
    bound: bool,
    policy: Policy,
}

impl Copied {
    fn all() -> impl Iterator<Item = Self> {
        (0..128_u32).map(|bits| {
            let bit = |place: u32| bits & (1 << place) != 0;
            Self {
                kind: if bit(0) { Kind::Group } else { Kind::Single },
                being_created: bit(1),
                being_deleted: bit(2),
                member: bit(3),
                finalizer: bit(4),
                bound: bit(5),
                policy: if bit(6) {
                    Policy::Retain
                } else {
                    Policy::Delete
                },
            }
        })
    }

    fn content(self) -> Content {
        let mut content = match self.kind {
            Kind::Single => pre_provisioned(),
            Kind::Group => pre_provisioned_group(),
        };
        content.being_created = self.being_created;
        content.being_deleted = self.being_deleted;
        content.member = self.member;
        content.policy = self.policy;
        if self.finalizer {
            content.finalizers = [self.kind.finalizer().into()].into();
        }
        if self.bound {
            content.snapshot.uid = "U9".into();
        }
        content
    }

    fn bench(self) -> Bench {
        let mut bench = Bench::empty(Settings::default());
        bench.server.put(&NAME.into(), Some(self.content()));
        bench
    }

    fn found(self) -> Answer {
        match self.kind {
            Kind::Single => listed(&["snap-9"], "", |_| {}),
            Kind::Group => {
                let mut answer = group(true);
                answer.group_snapshot_id = "grp-9".into();
                for (snapshot, id) in answer.snapshots.iter_mut().zip(["snap-8", "snap-9"]) {
                    snapshot.snapshot_id = id.into();
                }
                group_got(answer)
            }
        }
    }

    fn looks_up(self) -> &'static str {
        match self.kind {
            Kind::Single => "List snap-9 {}",
            Kind::Group => "GetGroup grp-9 snap-8+snap-9 {}",
        }
    }

    fn deletes(self) -> &'static str {
        match self.kind {
            Kind::Single => "Delete snap-9 {}",
            Kind::Group => "DeleteGroup grp-9 snap-8+snap-9 {}",
        }
    }

    /// Its VolumeSnapshot is deleted, or an administrator deletes the content itself.
    fn goes(self) -> impl Fn(&mut Content) {
        move |content| {
            // The controller protects a bound content.
            if self.bound && !content.is_protected() {
                content.finalizers = [self.kind.finalizer().into()].into();
            }
            content.being_deleted |= self.bound;
            content.deleting = true;
        }
    }

    /// Whether a finalizer holds it at its deletion.
    fn is_held(self) -> bool {
        self.finalizer || self.bound
    }

    /// The expected number of deletions of its snapshot.
    fn deletions(self, looked_up: bool) -> usize {
        let ours = self.bound || looked_up;
        usize::from(self.policy == Policy::Delete && self.is_held() && ours)
    }
}

fn count(trace: &[String], line: &str) -> usize {
    trace.iter().filter(|one| *one == line).count()
}

fn there(bench: &Bench) -> Option<&Content> {
    let content = bench.server.contents.get(&Text::from(NAME));
    content.map(|(_, content)| content)
}

/// Row S-121: the leftovers block neither the look-up nor the deletion.
#[test]
fn s_121_what_is_copied_is_looked_up_and_goes() {
    for row in Copied::all() {
        let mut bench = row.bench();
        bench.answers([row.found()]);
        let trace = bench.run();
        assert_eq!(count(&trace, row.looks_up()), 1, "{row:?}: {trace:#?}");
        let content = there(&bench).unwrap();
        assert!(
            content.is_ready() && !content.being_created,
            "{row:?}: {content:?}"
        );
        assert!(bench.rests(), "{row:?}");
        bench.server.change(&NAME.into(), row.goes());
        let trace = bench.run();
        assert_eq!(
            count(&trace, row.deletes()),
            row.deletions(true),
            "{row:?}: {trace:#?}"
        );
        assert!(
            there(&bench).is_none() && bench.rests(),
            "{row:?}: {trace:#?}"
        );
    }
}

/// The same for snapshots that were never found.
#[test]
fn s_121_what_is_copied_and_not_found_goes() {
    for row in Copied::all() {
        let mut bench = row.bench();
        bench.answers([crate::testing::fails(tonic::Code::NotFound, "x")]);
        bench.run();
        bench.server.change(&NAME.into(), row.goes());
        let trace = bench.run();
        assert_eq!(
            count(&trace, row.deletes()),
            row.deletions(false),
            "{row:?}: {trace:#?}"
        );
        assert!(there(&bench).is_none(), "{row:?}: {trace:#?}");
    }
}

/// Row S-122: the content is deleted while the driver is still looking for its snapshot.
#[test]
fn s_122_what_a_lookup_finds_is_written_before_a_deletion_is_decided() {
    for row in Copied::all() {
        let mut bench = row.bench();
        bench.answers([row.found()]);
        let goes = row.goes();
        let meddle = move |server: &mut Server| server.change(&NAME.into(), goes);
        bench.during = Some(Box::new(meddle));
        let trace = bench.run();
        assert_eq!(count(&trace, row.looks_up()), 1, "{row:?}: {trace:#?}");
        assert_eq!(
            count(&trace, row.deletes()),
            row.deletions(true),
            "{row:?}: {trace:#?}"
        );
        assert!(
            there(&bench).is_none() && bench.rests(),
            "{row:?}: {trace:#?}"
        );
    }
}

/// The same, with a status that cannot be written at first: the found snapshot is not forgotten.
#[test]
fn s_122_what_a_lookup_found_outlives_a_status_that_is_refused() {
    for refusal in [Refusal::Conflict, Refusal::Unknown, Refusal::Other] {
        let row = Copied {
            kind: Kind::Single,
            being_created: false,
            being_deleted: false,
            member: false,
            finalizer: true,
            bound: false,
            policy: Policy::Delete,
        };
        let mut bench = row.bench();
        bench.answers([row.found()]);
        let goes = row.goes();
        let meddle = move |server: &mut Server| server.change(&NAME.into(), goes);
        bench.during = Some(Box::new(meddle));
        bench.refusals.extend([(true, refusal)]);
        let mut trace = bench.run();
        while !bench.rests() {
            trace.extend(bench.next().1);
        }
        assert_eq!(count(&trace, row.deletes()), 1, "{refusal:?}: {trace:#?}");
        assert!(there(&bench).is_none(), "{refusal:?}: {trace:#?}");
    }
}

/// With Retain, the recreated object behaves like a new one.
#[test]
fn s_121_retain_and_apply_again() {
    for row in Copied::all().filter(|row| row.policy == Policy::Retain) {
        let mut bench = row.bench();
        bench.answers([row.found(), row.found()]);
        bench.run();
        let mut kept = there(&bench).unwrap().clone();
        bench.server.change(&NAME.into(), row.goes());
        assert_eq!(count(&bench.run(), row.deletes()), 0, "{row:?}");
        assert!(there(&bench).is_none(), "{row:?}");
        // The object as a backup tool saves it: with its annotations, without status and owner.
        kept.uid = "C10".into();
        kept.being_deleted = true;
        kept.status = None;
        kept.snapshot.uid = "".into();
        bench.server.put(&NAME.into(), Some(kept));
        assert_eq!(count(&bench.run(), row.looks_up()), 1, "{row:?}");
        assert!(
            there(&bench).unwrap().is_ready() && bench.rests(),
            "{row:?}"
        );
    }
}

/// Row S-124: handles in another spelling, in every kind of response.
#[test]
fn s_124_a_driver_that_spells_handles_in_another_way() {
    let full = "/pool/snap-9";
    let mut bench = Bench::empty(Settings::default());
    bench.server.put(&NAME.into(), Some(pre_provisioned()));
    bench.answers([listed(&[full], "", |_| {})]);
    let found = r#"st {"creationTime":1767323045000000000,"readyToUse":true,"restoreSize":5,"snapshotHandle":"/pool/snap-9"}"#;
    assert_eq!(bench.run(), lines(&["List snap-9 {}", found]), "listed");
    let named = |notice: &Notice| {
        matches!(notice, Notice::OtherHandle(_, asked, said)
            if **asked == *"snap-9" && **said == *full)
    };
    assert!(bench.notices.iter().any(named), "{:?}", bench.notices);
    assert!(bench.rests());
    // One of several other handles, or a single one after other pages, is not the requested one.
    for answers in [
        vec![listed(&["a", "b"], "", |_| {})],
        vec![listed(&[], "2", |_| {}), listed(&[full], "", |_| {})],
        vec![listed(&[full], "2", |_| {}), listed(&[], "", |_| {})],
        vec![listed(&[], "", |_| {})],
    ] {
        let mut bench = Bench::empty(Settings::default());
        bench.server.put(&NAME.into(), Some(pre_provisioned()));
        bench.answers(answers);
        bench.run();
        assert!(!there(&bench).unwrap().is_ready() && !bench.rests());
        assert!(!bench.notices.iter().any(named), "{:?}", bench.notices);
    }
}
