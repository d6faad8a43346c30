use super::Step::{Abandon, Cut, Drain, End, Release, Seek, Start};
use super::*;

/// Steps until something has to happen first.
fn steps(order: &mut Order) -> Vec<Step> {
    std::iter::from_fn(|| order.next_step()).collect()
}

/// Three controllers that work.
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
fn a_38_without_the_head_all_stop_and_give_back_before_it_is_sought_again() {
    let mut order = working();
    order.lost(0);
    assert_eq!(steps(&mut order), [Cut(0), Cut(1), Cut(2)]);
    order.stopped(1);
    assert_eq!(steps(&mut order), [Release(1)]);
    order.released(1);
    order.stopped(0);
    assert_eq!(steps(&mut order), [], "another is still at work");
    order.stopped(2);
    assert_eq!(steps(&mut order), [Release(2)]);
    assert_eq!(steps(&mut order), []);
    order.released(2);
    assert_eq!(steps(&mut order), [Seek(0)]);
}

#[test]
fn a_39_a_lost_lease_of_another_controller_stops_that_one() {
    let mut order = working();
    order.lost(1);
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
    order.released(1);
    assert_eq!(steps(&mut order), []);
    order.released(2);
    assert_eq!(steps(&mut order), [Release(0)]);
    order.released(0);
    assert_eq!(steps(&mut order), [End]);
    assert_eq!(steps(&mut order), []);
}

#[test]
fn a_campaign_ends_with_the_process_and_with_the_head() {
    let mut standby = Order::new(2);
    steps(&mut standby);
    standby.end();
    assert_eq!(steps(&mut standby), [Abandon(0), End]);

    let mut order = Order::new(2);
    steps(&mut order);
    order.acquired(0);
    steps(&mut order);
    order.lost(0);
    assert_eq!(steps(&mut order), [Cut(0), Abandon(1)]);
    // What was acquired after all is not taken for held.
    order.acquired(1);
    order.stopped(0);
    assert_eq!(steps(&mut order), [Seek(0)]);
}

#[test]
fn who_drains_is_cut_when_the_lease_goes() {
    let mut order = working();
    order.end();
    steps(&mut order);
    order.lost(0);
    assert_eq!(steps(&mut order), [Cut(0), Cut(1), Cut(2)]);
}

#[test]
fn a_48_a_controller_that_stays_off_gives_its_lease_back_and_the_head_stays() {
    let mut order = working();
    order.switch_off(1);
    assert_eq!(steps(&mut order), [Drain(1)]);
    order.stopped(1);
    assert_eq!(steps(&mut order), [Release(1)]);
    order.released(1);
    assert_eq!(steps(&mut order), []);
    // One that has ended by itself.
    order.stopped(0);
    order.switch_off(0);
    assert_eq!(steps(&mut order), []);
    assert_eq!(at_work(&order), [2]);
}

#[test]
fn a_52_without_driver_all_leases_are_given_back_and_asked_for_again_with_it() {
    let mut order = working();
    order.rest();
    assert_eq!(steps(&mut order), [Drain(0), Drain(1), Drain(2)]);
    for place in 0..3 {
        order.stopped(place);
    }
    assert_eq!(steps(&mut order), [Release(1), Release(2)]);
    order.released(1);
    order.released(2);
    assert_eq!(steps(&mut order), [Release(0)]);
    order.released(0);
    assert_eq!(steps(&mut order), [Seek(0)]);
    // The driver is away again before the head is held.
    order.rest();
    assert_eq!(steps(&mut order), [Abandon(0), Seek(0)]);
}

#[test]
fn a_controller_that_ended_by_itself_begins_anew() {
    let mut order = working();
    order.stopped(2);
    assert_eq!(steps(&mut order), [Start(2)]);
}
