use proptest::prelude::*;

use super::*;
use crate::duration::GoDuration;

const S: Duration = Duration::from_secs(1);

fn timing(lease: i64, renew: i64, retry: i64) -> Result<Timing, TimingError> {
    let seconds = GoDuration::from_secs;
    Timing::new(seconds(lease), seconds(renew), seconds(retry))
}

fn standby(now: Instant) -> Election {
    Election::new("host-a", timing(15, 10, 5).unwrap(), now)
}

fn held_by(holder: &str, seconds: u64, transitions: i64) -> Record {
    Record {
        holder: holder.to_owned(),
        seconds: Some(seconds),
        transitions,
        acquired: "then".to_owned(),
        renewed: "then".to_owned(),
    }
}

fn claim(transitions: i64, acquired: Option<&str>) -> Claim {
    Claim {
        holder: "host-a".to_owned(),
        seconds: 15,
        transitions,
        acquired: acquired.map(str::to_owned),
    }
}

/// A leader that has just renewed at `now`, with a lease of this many transitions.
fn leader(now: Instant) -> Election {
    let mut election = standby(now);
    assert_eq!(election.next(now), Step::Get);
    election.found(held_by("", 1, 7), now, 0.0);
    assert_eq!(election.next(now), Step::Update(claim(8, None)));
    assert!(election.written(held_by("host-a", 15, 8), now, now));
    assert!(matches!(election.next(now), Step::Update(_)));
    assert!(!election.written(held_by("host-a", 15, 8), now, now));
    election
}

// Rows 59 and 60, and client-go's other checks
#[test]
fn durations_that_cannot_work_are_refused_by_the_name_of_their_flags() {
    for (durations, flags) in [
        (
            (15, 20, 5),
            ["lease-duration (15s)", "renew-deadline (20s)"],
        ),
        (
            (15, 15, 5),
            ["lease-duration (15s)", "renew-deadline (15s)"],
        ),
        ((15, 10, 9), ["renew-deadline (10s)", "retry-period (9s)"]),
        ((15, 12, 10), ["renew-deadline (12s)", "retry-period (10s)"]),
        ((15, 10, 0), ["retry-period (0s)", "greater than zero"]),
        ((15, 10, -1), ["retry-period (-1s)", "greater than zero"]),
        ((-1, -2, -5), ["retry-period (-5s)", "greater than zero"]),
    ] {
        let (lease, renew, retry) = durations;
        let error = timing(lease, renew, retry).unwrap_err().to_string();
        assert!(
            flags.iter().all(|flag| error.contains(flag)),
            "{durations:?}: {error}"
        );
    }
    let millis = |n: i64| GoDuration::from_nanos(n * 1_000_000);
    let short = Timing::new(millis(900), millis(600), millis(100)).unwrap_err();
    assert!(short.to_string().contains("at least 1s"));
    assert!(timing(15, 10, 5).is_ok());
    assert!(timing(i64::MAX, 10, 5).is_ok());
}

// Row 49: GET 404, POST, PUT
#[test]
fn without_a_lease_it_is_created_and_renewed_once_at_once() {
    let t = Instant::now();
    let mut election = standby(t);
    assert_eq!(election.next(t), Step::Get);
    election.not_found();
    assert_eq!(election.next(t), Step::Create(claim(0, None)));
    assert!(election.written(held_by("host-a", 15, 0), t, t));
    assert_eq!(election.next(t), Step::Update(claim(0, Some("then"))));
    assert!(!election.written(held_by("host-a", 15, 0), t, t));
    assert_eq!(election.next(t), Step::Wait(t + 5 * S));
    assert_eq!(
        election.next(t + 5 * S),
        Step::Update(claim(0, Some("then")))
    );
}

// Row 57
#[test]
fn a_held_lease_is_taken_when_it_was_seen_unchanged_for_its_own_duration() {
    let t = Instant::now();
    let mut election = standby(t);
    let held = held_by("host-b", 4, 7);
    let mut now = t;
    while now < t + 4 * S {
        assert_eq!(election.next(now), Step::Get);
        election.found(held.clone(), now, 0.0);
        assert_eq!(
            election.next(now),
            Step::Wait(now + 5 * S),
            "retry period, no jitter"
        );
        now += S;
        election.phase = Phase::Rest(now);
    }
    election.next(now);
    election.found(held, now, 0.0);
    assert_eq!(election.next(now), Step::Update(claim(8, None)));
}

#[test]
fn a_lease_that_changes_is_never_taken() {
    let t = Instant::now();
    let mut election = standby(t);
    for second in 0..100 {
        let now = t + second * S;
        election.phase = Phase::Read;
        let record = Record {
            renewed: second.to_string(),
            ..held_by("host-b", 1, 7)
        };
        election.found(record, now, 0.0);
        assert!(matches!(election.next(now), Step::Wait(_)), "{second}");
    }
}

// Rows 58 and 58b
#[test]
fn a_free_lease_and_ones_own_are_taken_on_the_first_try() {
    for (holder, expected) in [("", claim(8, None)), ("host-a", claim(7, Some("then")))] {
        let t = Instant::now();
        let mut election = standby(t);
        election.next(t);
        election.found(held_by(holder, 15, 7), t, 0.5);
        assert_eq!(election.next(t), Step::Update(expected));
    }
}

#[test]
fn a_holder_without_duration_is_given_ours() {
    let t = Instant::now();
    let mut election = standby(t);
    let record = Record {
        seconds: None,
        ..held_by("host-b", 0, 0)
    };
    for (second, expired) in [(0, false), (14, false), (15, true)] {
        election.phase = Phase::Read;
        election.found(record.clone(), t + second * S, 0.0);
        assert_eq!(election.phase == Phase::Write, expired, "{second}");
    }
}

#[test]
fn standbys_wait_between_one_and_two_point_two_periods() {
    for (random, millis) in [(0.0, 5000), (0.5, 8000), (1.0, 11000), (7.0, 11000)] {
        let t = Instant::now();
        let mut election = standby(t);
        election.next(t);
        election.found(held_by("host-b", 15, 7), t, random);
        assert_eq!(
            election.next(t),
            Step::Wait(t + Duration::from_millis(millis))
        );
    }
}

#[test]
fn a_standby_that_loses_the_race_for_a_lease_goes_on_waiting() {
    let t = Instant::now();
    let mut election = standby(t);
    election.next(t);
    election.not_found();
    election.next(t);
    assert!(!election.conflict(t, 0.0));
    assert_eq!(election.next(t), Step::Wait(t + 5 * S));
    assert_eq!(election.next(t + 5 * S), Step::Get);
}

#[test]
fn a_leader_renews_without_reading_and_takes_the_slow_path_on_conflict() {
    let t = Instant::now();
    let mut election = leader(t);
    assert_eq!(
        election.next(t + 5 * S),
        Step::Update(claim(8, Some("then")))
    );
    assert!(election.conflict(t + 5 * S, 0.0));
    assert_eq!(election.next(t + 5 * S), Step::Get);
    election.found(held_by("host-a", 15, 8), t + 5 * S, 0.0);
    assert_eq!(
        election.next(t + 5 * S),
        Step::Update(claim(8, Some("then")))
    );
    assert!(!election.written(held_by("host-a", 15, 8), t + 5 * S, t + 6 * S));
    assert_eq!(
        election.next(t + 6 * S),
        Step::Wait(t + 10 * S),
        "counted from the start"
    );
}

#[test]
fn a_leader_whose_lease_was_deleted_makes_a_new_one() {
    let t = Instant::now();
    let mut election = leader(t);
    election.next(t + 5 * S);
    election.conflict(t + 5 * S, 0.0);
    election.next(t + 5 * S);
    election.not_found();
    assert_eq!(election.next(t + 5 * S), Step::Create(claim(0, None)));
}

#[test]
fn someone_elses_name_in_the_lease_ends_leadership_at_once() {
    let t = Instant::now();
    let mut election = leader(t);
    election.next(t + 5 * S);
    election.conflict(t + 5 * S, 0.0);
    election.found(held_by("host-b", 15, 9), t + 5 * S, 0.0);
    let lost = Step::StepDown(Lost::TakenBy("host-b".to_owned()));
    assert_eq!(election.next(t + 5 * S), lost);
    assert_eq!(election.next(t + 6 * S), lost, "and for good");
    assert_eq!(election.leading_since_renewal(), None);
}

// Row 61
#[test]
fn a_leader_that_cannot_renew_steps_down_before_the_lease_expires() {
    for (lease, renew, retry, expected) in
        [(15, 10, 5, 13_500), (4, 3, 1, 3_600), (60, 10, 2, 12_000)]
    {
        let t = Instant::now();
        let mut election = Election::new("host-a", timing(lease, renew, retry).unwrap(), t);
        election.next(t);
        election.not_found();
        election.next(t);
        election.written(held_by("host-a", 15, 0), t, t);
        let mut now = t;
        let lost = loop {
            match election.next(now) {
                Step::Wait(until) => now = until,
                Step::Update(_) | Step::Get => {
                    now += S / 10;
                    election.failed(now, 0.9);
                }
                Step::Create(_) => panic!("there is a lease"),
                Step::StepDown(lost) => break lost,
            }
        };
        assert_eq!(now - t, Duration::from_millis(expected));
        assert_eq!(lost, Lost::NotRenewed(Duration::from_millis(expected)));
    }
}

#[test]
fn a_leader_that_slept_through_its_deadline_does_nothing_more() {
    let t = Instant::now();
    let mut election = leader(t);
    assert!(matches!(
        election.next(t + 600 * S),
        Step::StepDown(Lost::NotRenewed(_))
    ));
}

// Row 67
#[test]
fn a_released_lease_has_no_holder_and_ends_after_a_second() {
    let t = Instant::now();
    let expected = Claim {
        holder: String::new(),
        seconds: 1,
        transitions: 8,
        acquired: None,
    };
    assert_eq!(leader(t).release(), Some(expected));
    let mut standby = standby(t);
    assert_eq!(standby.release(), None);
    standby.found(held_by("host-b", 15, 7), t, 0.0);
    assert_eq!(standby.release(), None);
}

/// Valid timings, random to the nanosecond.
fn timings() -> impl Strategy<Value = Timing> {
    let nanos = |most: i64| 1..=most;
    (nanos(1 << 35), nanos(1 << 35), nanos(1 << 33)).prop_filter_map(
        "they contradict each other",
        |(lease, renew, retry)| {
            let duration = GoDuration::from_nanos;
            Timing::new(duration(lease), duration(renew), duration(retry)).ok()
        },
    )
}

proptest! {
    #[test]
    fn fs_10_nobody_holds_a_lease_for_longer_than_it_says(timing in timings()) {
        prop_assert!(timing.hold() < Duration::from_secs(timing.lease_seconds()));
        // Durations of whole seconds are written exactly.
        prop_assert!(Duration::from_secs(timing.lease_seconds()) < timing.lease() + S);
    }
}
