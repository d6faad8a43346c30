use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Starts as many requests as the limit allows.
fn fill(state: &mut Adaptive, now: Instant) -> Vec<Ticket> {
    std::iter::from_fn(|| state.start(now).ok()).collect()
}

#[test]
fn starts_at_the_usual_burst_and_waits_for_a_slot_beyond() {
    let now = Instant::now();
    let mut state = Adaptive::new();
    let tickets = fill(&mut state, now);
    assert_eq!(tickets.len(), 10);
    assert_eq!(state.start(now).unwrap_err(), Wait::Slot);
    state.end((tickets[0], Some(0)), Verdict::Unknown, now, 0.0);
    assert!(state.start(now).is_ok());
}

#[test]
fn grows_by_one_per_round_while_used_fully_and_stops_at_the_most() {
    let now = Instant::now();
    let mut state = Adaptive::new();
    for round in 0..200 {
        let before = state.limit();
        for ticket in fill(&mut state, now) {
            state.end((ticket, Some(0)), Verdict::Served, now, 0.0);
        }
        assert!(state.limit() <= before + 1.0, "round {round}");
    }
    assert!(
        (state.limit() - MOST).abs() < f64::EPSILON,
        "{}",
        state.limit()
    );
}

#[test]
fn does_not_grow_when_few_run() {
    let now = Instant::now();
    let mut state = Adaptive::new();
    for _ in 0..100 {
        let ticket = state.start(now).unwrap();
        state.end((ticket, Some(0)), Verdict::Served, now, 0.0);
    }
    assert!((state.limit() - START).abs() < f64::EPSILON);
}

#[test]
fn a_refusal_halves_once_per_round_and_pauses_as_asked() {
    let now = Instant::now();
    let mut state = Adaptive::new();
    let tickets = fill(&mut state, now);
    let later = now + SECOND;
    for (object, ticket) in (0..).zip(tickets) {
        let ended = (ticket, Some(object));
        state.end(ended, Verdict::Refused(Some(3 * SECOND)), later, 0.0);
    }
    assert!((state.limit() - 5.0).abs() < f64::EPSILON);
    let resume = later + 3 * SECOND;
    assert_eq!(state.start(later).unwrap_err(), Wait::Until(resume));
    assert_eq!(fill(&mut state, resume).len(), 5);
}

#[test]
fn falls_to_one_pauses_longer_and_longer_and_recovers() {
    let mut now = Instant::now();
    let mut state = Adaptive::new();
    let mut pauses = Vec::new();
    for object in 0..8 {
        let ticket = state.start(now).unwrap();
        state.end((ticket, Some(object)), Verdict::Refused(None), now, 0.0);
        let Err(Wait::Until(resume)) = state.start(now) else {
            panic!("no pause");
        };
        pauses.push((resume - now).as_secs());
        now = resume;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
    assert_eq!(fill(&mut state.clone(), now).len(), 1);
    for _ in 0..100 {
        for ticket in fill(&mut state, now) {
            state.end((ticket, Some(0)), Verdict::Served, now, 0.0);
        }
    }
    assert!(state.limit() > START);
    let ticket = state.start(now).unwrap();
    state.end((ticket, None), Verdict::Refused(None), now, 0.0);
    assert_eq!(state.start(now).unwrap_err(), Wait::Until(now + SECOND));
}

#[test]
fn clients_refused_together_come_back_apart() {
    let now = Instant::now();
    let mut state = Adaptive::new();
    let ticket = state.start(now).unwrap();
    state.end((ticket, None), Verdict::Refused(Some(4 * SECOND)), now, 0.5);
    let Err(Wait::Until(resume)) = state.start(now) else {
        panic!("no pause");
    };
    assert_eq!(resume - now, Duration::from_millis(4500));
}

#[test]
fn e_4_one_object_is_left_alone_and_the_others_wait_for_seconds() {
    let mut now = Instant::now();
    let mut state = Adaptive::new();
    let refuse = |state: &mut Adaptive, object: Object, asked: u32, now: Instant| {
        let ticket = state.start(now).unwrap();
        let verdict = Verdict::Refused(Some(SECOND * asked));
        state.end((ticket, object), verdict, now, 0.0);
    };
    for _ in 0..5 {
        refuse(&mut state, Some(1), 60, now);
        let until = now + 60 * SECOND;
        assert_eq!(state.bound(Some(1), now), Some(until));
        assert_eq!(state.bound(Some(2), now), None);
        let resume = now + 5 * SECOND;
        assert_eq!(state.start(now).unwrap_err(), Wait::Until(resume));
        now = until - SECOND;
        assert!(
            (state.limit() - START / 2.0).abs() < f64::EPSILON,
            "cut once"
        );
    }
    refuse(&mut state, Some(2), 60, now);
    let resume = now + 60 * SECOND;
    assert_eq!(
        state.start(now).unwrap_err(),
        Wait::Until(resume),
        "several"
    );
    now = resume + 60 * SECOND;
    // New objects equal no others.
    for asked in [5, 60] {
        refuse(&mut state, None, 60, now);
        let resume = now + asked * SECOND;
        assert_eq!(state.start(now).unwrap_err(), Wait::Until(resume));
        now = resume;
    }
}
