use super::*;

const STAGES: [Stage; 3] = [Stage::Provisioned, Stage::Bound, Stage::Attached];

/// The second at which this process began to lead; the previous leader renewed its lease ten seconds before.
const BEGAN: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(BEGAN + second).unwrap()
}

fn stamp(second: i64) -> u32 {
    u32::try_from(BEGAN + second).unwrap()
}

/// One stage of one object, played second by second.
struct Played {
    tracker: Tracker,
    stage: Stage,
}

impl Played {
    fn new(stage: Stage) -> Self {
        Self {
            tracker: Tracker::new(at(-10)),
            stage,
        }
    }

    /// A process whose first lists are complete.
    fn listed(stage: Stage) -> Self {
        let mut this = Self::new(stage);
        assert_eq!(this.tracker.listed(), []);
        this
    }

    fn see(&mut self, second: i64, what: Progress) -> Option<Option<f64>> {
        let step = Step::new(self.stage, Id::of("u1"), what).of_class("fast");
        let sample = self.tracker.take(step, at(second))?;
        assert_eq!((sample.stage, &*sample.class), (self.stage, "fast"));
        Some(sample.seconds)
    }

    fn waiting(&mut self, second: i64) -> (usize, f64) {
        let all = self.tracker.unfinished(&STAGES, at(second));
        let (_, waiting) = all.into_iter().find(|(of, _)| *of == self.stage).unwrap();
        (waiting.count, waiting.oldest)
    }

    fn is_forgotten(&self) -> bool {
        self.tracker.open.is_empty()
            && self.tracker.ended.is_empty()
            && self.tracker.begun.is_empty()
    }
}

fn open(since: Since) -> Progress {
    Progress::Open { since, moves: true }
}

fn created(second: i64) -> Progress {
    open(Since::At(stamp(second)))
}

fn done(second: Option<i64>, end: End) -> Progress {
    Progress::Done {
        at: second.map(at),
        end,
    }
}

#[test]
fn o_80_attempts_and_events_in_between_are_one_sample() {
    let mut claim = Played::listed(Stage::Provisioned);
    for second in [20, 21, 30, 45] {
        assert_eq!(claim.see(second, created(20)), None);
    }
    assert_eq!(claim.waiting(50), (1, 30.0));
    assert_eq!(
        claim.see(60, done(Some(60), End::Another)),
        Some(Some(40.0))
    );
    // The claim is bound later, and its PersistentVolume changes from time to time.
    assert_eq!(claim.waiting(60), (0, 0.0));
    assert_eq!(claim.see(60, created(20)), None);
    assert_eq!(claim.see(61, done(Some(60), End::Another)), None);
    assert_eq!(claim.see(62, Progress::Begun(stamp(20))), None);
    assert_eq!(claim.see(63, done(Some(60), End::Another)), None);
    assert!(claim.is_forgotten());
}

#[test]
fn o_80_the_two_objects_are_seen_in_any_order() {
    let mut claim = Played::listed(Stage::Bound);
    assert_eq!(claim.see(20, created(20)), None);
    assert_eq!(claim.see(24, Progress::Begun(stamp(20))), None);
    assert_eq!(claim.waiting(24), (0, 0.0));
    assert_eq!(claim.see(25, done(Some(23), End::Another)), Some(Some(4.0)));
    assert!(claim.is_forgotten());
}

#[test]
fn o_81_what_a_successor_finds_open_has_begun_when_its_object_says() {
    let mut claim = Played::new(Stage::Provisioned);
    assert_eq!(claim.see(1, created(-30)), None);
    assert_eq!(claim.tracker.listed(), []);
    assert_eq!(
        claim.see(12, done(Some(12), End::Another)),
        Some(Some(42.0))
    );
}

#[test]
fn o_82_what_ended_while_nobody_led_is_counted_once() {
    for volume_first in [true, false] {
        let mut claim = Played::new(Stage::Bound);
        let bound = done(Some(-4), End::Another);
        let (first, second) = match volume_first {
            true => (bound, Progress::Begun(stamp(-34))),
            false => (Progress::Begun(stamp(-34)), bound),
        };
        assert_eq!(claim.see(1, first), None);
        let at_once = claim.see(1, second);
        let later = claim.tracker.listed();
        let samples: Vec<_> = later.into_iter().map(|sample| sample.seconds).collect();
        match at_once {
            Some(seconds) => assert_eq!((seconds, &*samples), (Some(30.0), &[][..])),
            None => assert_eq!(samples, [Some(30.0)]),
        }
        assert_eq!(claim.see(2, bound), None);
        assert!(claim.is_forgotten());
        // A later leader, whose predecessor measured the stage.
        let mut later = Played {
            tracker: Tracker::new(at(0)),
            stage: Stage::Bound,
        };
        assert_eq!(later.see(31, first), None);
        assert_eq!(later.see(31, second), None);
        assert_eq!(later.tracker.listed(), []);
        assert!(later.is_forgotten());
    }
}

#[test]
fn o_82_what_is_said_again_before_the_lists_are_complete_is_counted_once() {
    let bound = done(Some(2), End::Another);
    let begun = Progress::Begun(stamp(-34));
    for said in [[created(-34), bound, begun], [bound, begun, begun]] {
        let mut claim = Played::new(Stage::Bound);
        let samples = said.map(|what| claim.see(2, what));
        assert_eq!(samples.iter().flatten().count(), 1);
        for what in [begun, bound, begun, bound] {
            assert_eq!(claim.see(3, what), None);
        }
        assert_eq!(claim.tracker.listed(), []);
        assert!(claim.is_forgotten());
        for what in [begun, bound] {
            assert_eq!(claim.see(4, what), None);
        }
    }
}

#[test]
fn o_93_what_is_said_again_is_kept_once() {
    let mut claim = Played::new(Stage::Bound);
    for second in 0..1000 {
        assert_eq!(claim.see(second, Progress::Begun(stamp(-34))), None);
    }
    assert!(claim.tracker.begun.capacity() <= 8);
}

#[test]
fn o_82_a_volume_that_was_bound_before_its_claim_was_told_so() {
    let mut claim = Played::new(Stage::Bound);
    assert_eq!(claim.see(1, done(Some(-4), End::Another)), None);
    assert_eq!(claim.see(1, created(-34)), Some(Some(30.0)));
    assert_eq!(claim.tracker.listed(), []);
    assert_eq!(claim.waiting(2), (0, 0.0));
    assert_eq!(claim.see(3, Progress::Begun(stamp(-34))), None);
    assert!(claim.is_forgotten());
    // The previous leader measured the stage.
    assert_eq!(claim.see(3, created(-34)), None);
    claim.tracker.is_listed = false;
    assert_eq!(claim.see(3, done(Some(-11), End::Another)), None);
    assert_eq!(claim.waiting(3), (0, 0.0));
}

#[test]
fn o_83_and_o_93_of_what_is_done_nothing_is_counted_and_nothing_kept() {
    let mut tracker = Tracker::new(at(-10));
    for object in 0..50_000 {
        let uid = Id::of(&object.to_string());
        let begun = Progress::Begun(stamp(-86_400));
        let step = |what| Step::new(Stage::Bound, uid, what);
        assert_eq!(tracker.take(step(begun), at(1)), None);
        let bound = done(Some(-86_000), End::Another);
        assert_eq!(tracker.take(step(bound), at(1)), None);
    }
    assert_eq!(tracker.listed(), []);
    assert_eq!(tracker.open.capacity() + tracker.ended.capacity(), 0);
    assert_eq!(tracker.begun.capacity(), 0);
    // Sixteen bytes each while the lists are read.
    assert_eq!(size_of::<(Stage, Id, u32)>(), 16);
}

#[test]
fn o_84_a_choice_begins_it_and_may_be_taken_back() {
    let mut claim = Played::listed(Stage::Provisioned);
    assert_eq!(claim.see(86_400, open(Since::Chosen)), None);
    assert_eq!(claim.waiting(86_402), (1, 2.0));
    // The node was full, and the scheduler must choose another one.
    assert_eq!(claim.see(86_402, created(0)), None);
    assert_eq!(claim.waiting(86_403), (1, 0.0));
    assert_eq!(claim.see(86_404, open(Since::Chosen)), None);
    assert_eq!(claim.waiting(86_404), (1, 4.0));
    let saved = done(Some(86_405), End::Another);
    assert_eq!(claim.see(86_405, saved), Some(Some(5.0)));

    // After a restart in between the time of the selection is unknown.
    let mut claim = Played::new(Stage::Provisioned);
    assert_eq!(claim.see(1, open(Since::Chosen)), None);
    assert_eq!(claim.tracker.listed(), []);
    assert_eq!(claim.waiting(3), (1, 2.0));
    assert_eq!(claim.see(5, done(Some(5), End::Another)), Some(None));

    // The state looked like a claim that needs no node, but lay between two selections.
    let mut claim = Played::listed(Stage::Provisioned);
    assert_eq!(claim.see(10, created(-86_400)), None);
    assert_eq!(claim.see(20, open(Since::Chosen)), None);
    let saved = done(Some(25), End::Another);
    assert_eq!(claim.see(25, saved), Some(Some(5.0)));
}

#[test]
fn o_85_what_is_given_up_is_no_sample() {
    let mut claim = Played::listed(Stage::Provisioned);
    assert_eq!(claim.see(1, created(1)), None);
    assert_eq!(claim.waiting(2), (1, 1.0));
    assert_eq!(claim.see(3, Progress::Dropped), None);
    assert_eq!(claim.waiting(4), (0, 0.0));
    assert_eq!(claim.see(5, done(Some(5), End::Another)), None);
    assert!(claim.is_forgotten());
}

#[test]
fn o_86_what_does_not_end_is_as_old_as_it_is() {
    let mut claim = Played::listed(Stage::Provisioned);
    assert_eq!(claim.see(0, created(0)), None);
    let waits = Progress::Open {
        since: Since::At(stamp(0)),
        moves: false,
    };
    assert_eq!(claim.waiting(3600), (1, 3600.0));
    // Users, the scheduler or a node have to act.
    assert_eq!(claim.see(3600, waits), None);
    assert_eq!(claim.waiting(3601), (1, 0.0));
}

#[test]
fn o_87_one_object_tells_both_ends() {
    for is_listed in [true, false] {
        let mut attachment = Played::new(Stage::Attached);
        attachment.tracker.is_listed = is_listed;
        assert_eq!(attachment.see(3, created(-30)), None);
        assert_eq!(attachment.see(4, created(-30)), None);
        let attached = done(None, End::Own);
        assert_eq!(attachment.see(5, attached), Some(Some(35.0)));
        assert!(attachment.is_forgotten());
        assert_eq!(attachment.see(6, attached), None);
        assert!(attachment.is_forgotten());
    }
}

#[test]
fn o_91_nothing_is_negative_and_whole_seconds_are_not_taken_for_less() {
    let seen = |open_at: i64, end: Timestamp, now: Timestamp| {
        let mut one = Played::listed(Stage::Bound);
        assert_eq!(one.see(0, created(open_at)), None);
        let done = Progress::Done {
            at: Some(end),
            end: End::Another,
        };
        let step = Step::new(Stage::Bound, Id::of("u1"), done);
        one.tracker.take(step, now).unwrap().seconds
    };
    let half = SignedDuration::from_millis(500);
    // One of the two clocks is behind.
    assert_eq!(seen(30, at(0), at(0)), Some(0.0));
    assert_eq!(seen(0, at(5), at(-30)), Some(5.0));
    // Seen within the second of the timestamp, and long after it.
    assert_eq!(seen(0, at(5), at(5) + half), Some(5.5));
    assert_eq!(seen(0, at(5), at(90)), Some(6.0));
    assert_eq!(seen(0, at(5) + half, at(90)), Some(5.5));
}

#[test]
fn what_nobody_says_more_about_is_forgotten() {
    let mut claim = Played::listed(Stage::Bound);
    assert_eq!(claim.see(0, created(0)), None);
    assert_eq!(claim.see(1, Progress::Begun(stamp(0))), None);
    assert_eq!(claim.waiting(600), (0, 0.0));
    assert!(!claim.is_forgotten());
    assert_eq!(claim.waiting(601), (0, 0.0));
    assert!(claim.is_forgotten());
}

#[test]
fn the_driver_is_the_one_that_was_known_when_it_was_opened() {
    let mut tracker = Tracker::new(at(-10));
    tracker.listed();
    let object = Id::of("u1");
    let step = |what, driver: Option<&str>| Step {
        driver: driver.map(Text::from),
        ..Step::new(Stage::SnapshotDeleted, object, what)
    };
    tracker.take(step(created(0), None), at(0));
    tracker.take(step(created(0), Some("a.driver")), at(1));
    tracker.take(step(created(0), None), at(2));
    let sample = tracker
        .take(step(done(None, End::Own), None), at(3))
        .unwrap();
    assert_eq!(sample.driver.as_deref(), Some("a.driver"));
}
