use super::Step::{Abandon, Cut, Drain, Over, Release, Seek, Start};
use super::*;

/// Steps up to the point where an event is needed.
fn steps(order: &mut Order) -> Vec<Step> {
    std::iter::from_fn(|| order.next_step()).collect()
}

/// Three working controllers.
fn working() -> Order {
    let mut order = Order::new(3);
    for place in 0..3 {
        steps(&mut order);
        order.acquired(place);
    }
    steps(&mut order);
    order
}

fn at_work(order: &Order) -> Vec<Place> {
    (0..3).filter(|place| order.is_at_work(*place)).collect()
}

#[test]
fn a_34_who_has_not_the_head_asks_for_nothing_else() {
    let mut standby = Order::new(3);
    assert_eq!(steps(&mut standby), [Seek(0)]);
    assert_eq!(steps(&mut standby), []);
    standby.acquired(0);
    assert_eq!(steps(&mut standby), [Start(0), Seek(1), Seek(2)]);
    standby.acquired(2);
    assert_eq!(steps(&mut standby), [Start(2)]);
    standby.acquired(1);
    assert_eq!(steps(&mut standby), [Start(1)]);
    assert_eq!(at_work(&standby), [0, 1, 2]);
}

#[test]
fn a_35_and_36_a_lease_that_another_holds_delays_its_own_controller_alone() {
    let mut order = Order::new(3);
    steps(&mut order);
    order.acquired(0);
    steps(&mut order);
    order.acquired(2);
    steps(&mut order);
    assert_eq!(at_work(&order), [0, 2]);
    assert_eq!(steps(&mut order), [], "the one is still sought");
    order.acquired(1);
    assert_eq!(steps(&mut order), [Start(1)]);
}

#[test]
fn a_38_without_the_head_it_is_over_at_once() {
    let mut order = working();
    order.gone(0);
    assert_eq!(steps(&mut order), [Over(Then::Again)]);
    assert_eq!(steps(&mut order), []);
    // Whatever was being released, and for whatever reason.
    for (begin, then) in [
        (Order::rest as fn(&mut Order), Then::Again),
        (Order::end, Then::Exit),
    ] {
        let mut order = working();
        begin(&mut order);
        assert_eq!(steps(&mut order), [Drain(0), Drain(1), Drain(2)]);
        order.stopped(1);
        assert_eq!(steps(&mut order), [Release(1)]);
        order.gone(0);
        assert_eq!(steps(&mut order), [Over(then)]);
    }
}

#[test]
fn a_39_a_lost_lease_of_another_controller_stops_that_one() {
    let mut order = working();
    order.gone(1);
    assert_eq!(steps(&mut order), [Cut(1)]);
    assert_eq!(at_work(&order), [0, 1, 2]);
    order.stopped(1);
    assert_eq!(steps(&mut order), [Seek(1)]);
    assert_eq!(at_work(&order), [0, 2]);
    order.acquired(1);
    assert_eq!(steps(&mut order), [Start(1)]);
}

#[test]
fn a_43_each_lease_goes_when_its_controller_has_stopped_and_the_head_last() {
    let mut order = working();
    order.end();
    assert_eq!(steps(&mut order), [Drain(0), Drain(1), Drain(2)]);
    order.stopped(0);
    assert_eq!(steps(&mut order), []);
    order.stopped(2);
    assert_eq!(steps(&mut order), [Release(2)]);
    order.stopped(1);
    assert_eq!(steps(&mut order), [Release(1)]);
    order.gone(1);
    assert_eq!(steps(&mut order), []);
    order.gone(2);
    assert_eq!(steps(&mut order), [Release(0)]);
    order.gone(0);
    assert_eq!(steps(&mut order), [Over(Then::Exit)]);
    assert_eq!(steps(&mut order), []);
}

#[test]
fn a_campaign_ends_with_the_process() {
    let mut standby = Order::new(2);
    steps(&mut standby);
    standby.end();
    assert_eq!(steps(&mut standby), [Abandon(0), Over(Then::Exit)]);

    let mut order = Order::new(2);
    steps(&mut order);
    order.acquired(0);
    steps(&mut order);
    order.end();
    assert_eq!(steps(&mut order), [Drain(0), Abandon(1)]);
    // A lease acquired in spite of the cancellation is released before the head.
    order.acquired(1);
    order.stopped(0);
    assert_eq!(steps(&mut order), [Release(1)]);
    order.gone(1);
    assert_eq!(steps(&mut order), [Release(0)]);
}

#[test]
fn who_drains_is_cut_when_the_lease_goes() {
    let mut order = working();
    order.end();
    steps(&mut order);
    order.gone(2);
    assert_eq!(steps(&mut order), [Cut(2)]);
}

#[test]
fn a_48_a_controller_that_stays_off_gives_its_lease_back_and_the_head_stays() {
    let mut order = working();
    order.switch_off(1);
    assert_eq!(steps(&mut order), [Drain(1)]);
    order.stopped(1);
    assert_eq!(steps(&mut order), [Release(1)]);
    order.gone(1);
    assert_eq!(steps(&mut order), []);
    // A controller that has ended by itself.
    order.stopped(0);
    order.switch_off(0);
    assert_eq!(steps(&mut order), []);
    assert_eq!(at_work(&order), [2]);
}

#[test]
fn a_52_without_driver_all_leases_are_given_back_and_then_comes_another_order() {
    let mut order = working();
    order.rest();
    assert_eq!(steps(&mut order), [Drain(0), Drain(1), Drain(2)]);
    for place in 0..3 {
        order.stopped(place);
    }
    assert_eq!(steps(&mut order), [Release(2), Release(1)]);
    order.gone(1);
    order.gone(2);
    assert_eq!(steps(&mut order), [Release(0)]);
    order.gone(0);
    assert_eq!(steps(&mut order), [Over(Then::Again)]);
    // A standby whose driver is unreachable.
    let mut standby = Order::new(3);
    steps(&mut standby);
    standby.rest();
    assert_eq!(steps(&mut standby), [Abandon(0), Over(Then::Again)]);
    // The signal arrives while other replicas may already try.
    let mut order = working();
    order.rest();
    steps(&mut order);
    order.end();
    order.cut_short();
    assert_eq!(steps(&mut order), [Over(Then::Exit)]);
}

#[test]
fn a_controller_that_ended_by_itself_begins_anew() {
    let mut order = working();
    order.stopped(2);
    assert_eq!(steps(&mut order), [Start(2)]);
}

type Event = fn(&mut Order, Place);

/// All events of one place.
const EVENTS: [(&str, Event); 8] = [
    ("acquired", |order, place| order.acquired(place)),
    ("gone", |order, place| order.gone(place)),
    ("stopped", |order, place| order.stopped(place)),
    ("switched off", |order, place| order.switch_off(place)),
    ("rest", |order, _| order.rest()),
    ("end", |order, _| order.end()),
    ("rest and end", |order, _| {
        order.rest();
        order.end();
    }),
    ("cut short", |order, _| order.cut_short()),
];

/// Each reachable state of two places, however unlikely, with the events that lead to it.
fn reachable() -> Vec<(String, Order)> {
    let mut known = vec![("begun".to_owned(), Order::new(2))];
    let mut seen = std::collections::BTreeSet::from([format!("{:?}", known[0].1)]);
    let mut next = 0;
    while let Some((how, order)) = known.get(next).cloned() {
        next += 1;
        let mut add = |how: String, order: Order| {
            if seen.insert(format!("{order:?}")) {
                known.push((how, order));
            }
        };
        let mut stepped = order.clone();
        if let Some(step) = stepped.next_step() {
            add(format!("{how}, {step:?}"), stepped);
        }
        for (name, event) in EVENTS {
            for place in 0..2 {
                let mut order = order.clone();
                event(&mut order, place);
                add(format!("{how}, {name} {place}"), order);
            }
        }
    }
    known
}

/// Executes all steps with their eventual results. Returns how the order ends.
fn carried_out(order: &mut Order) -> Result<Option<Then>, String> {
    for _ in 0..64 {
        let Some(step) = order.next_step() else {
            return Ok(None);
        };
        match step {
            Seek(place) => order.acquired(place),
            Release(place) => order.gone(place),
            Drain(place) | Cut(place) => order.stopped(place),
            Abandon(_) | Start(_) => {}
            Over(then) => return Ok(Some(then)),
        }
    }
    Err(format!("never rests: {order:?}"))
}

/// Ends all operations in progress, whatever started them.
fn what_is_under_way_ends(order: &mut Order) {
    for place in 0..2 {
        if order.parts[place].lease == Lease::Leaving {
            order.gone(place);
        }
        if order.is_stopping(place) {
            order.stopped(place);
        }
        if order.parts[place].lease == Lease::Sought {
            order.acquired(place);
        }
    }
}

/// No event is lost in any state: in the end the process works or the order is over.
#[test]
fn a_38_each_event_in_each_state_leads_to_work_or_to_the_end() {
    let states = reachable();
    assert!(states.len() > 500, "{}", states.len());
    for (how, order) in states.into_iter().filter(|(_, order)| !order.is_over) {
        for (name, event) in EVENTS {
            for place in 0..2 {
                let (mut order, told) = (order.clone(), format!("{how}: {name} {place}"));
                event(&mut order, place);
                let mut end =
                    carried_out(&mut order).unwrap_or_else(|error| panic!("{told}: {error}"));
                for _ in 0..4 {
                    if end.is_none() {
                        what_is_under_way_ends(&mut order);
                        end = carried_out(&mut order)
                            .unwrap_or_else(|error| panic!("{told}: {error}"));
                    }
                }
                let works = order.holds_head() && { order.parts.iter() }
                    .all(|part| part.is_off || part.work == Work::Running);
                let expected = match (order.aim, order.is_cut_short) {
                    (Aim::Work, false) => (None, true),
                    (Aim::Work | Aim::Rest, _) => (Some(Then::Again), works),
                    (Aim::End, _) => (Some(Then::Exit), works),
                };
                assert_eq!((end, works), expected, "{told}: {order:?}");
            }
        }
    }
}

/// No controller works without the head or without its own lease.
#[test]
fn a_34_no_step_in_any_state_lets_a_controller_work_without_both_leases() {
    for (how, mut order) in reachable() {
        if let Some(Start(place)) = order.next_step() {
            let held = |place: Place| order.parts[place].lease == Lease::Held;
            assert!(held(0) && held(place), "{how}: {order:?}");
        }
    }
}
