//! Fairness in virtual time, with the real queue: who runs when, with calls that take as long as
//! the test says.

use std::collections::VecDeque;
use std::time::Instant;

use sidecar::queue::State;

use super::*;

fn node(number: usize) -> String {
    format!("node{number}")
}

/// One attempt: when it comes, which way, which node, how long it takes.
struct Work {
    at: Duration,
    direction: Direction,
    node: String,
    takes: Duration,
}

struct Run {
    index: usize,
    end: Instant,
    hangs: Instant,
}

/// Runs all work and returns when each attempt started, and the most that ran at once.
fn simulate(threads: usize, works: &[Work]) -> (Vec<Duration>, usize) {
    let start = Instant::now();
    let (config, shared) = lanes(threads);
    let mut queue: State<usize> = State::new(config, shared);
    let mut pace = [Pace::default(); 2];
    let mut started = vec![Duration::MAX; works.len()];
    let mut running: Vec<Run> = Vec::new();
    let mut order: Vec<usize> = (0..works.len()).collect();
    order.sort_by_key(|index| works[*index].at);
    let mut arrivals = VecDeque::from(order);
    let (mut now, mut most) = (start, 0);
    loop {
        while let Some(at) = arrivals.pop_front_if(|at| start + works[*at].at <= now) {
            let place = Place::new(index(works[at].direction), Group::of(&works[at].node));
            queue.add(&at, place, now);
        }
        for run in running.extract_if(.., |run| run.end <= now) {
            pace[index(works[run.index].direction)].observe(works[run.index].takes);
            queue.done(&run.index, now);
        }
        for run in running.iter().filter(|run| run.hangs <= now) {
            queue.lend(&run.index);
        }
        while let Some(popped) = queue.pop(now) {
            let work = &works[popped.key];
            started[popped.key] = now - start;
            running.push(Run {
                index: popped.key,
                end: now + work.takes,
                hangs: now + pace[index(work.direction)].limit(),
            });
        }
        most = most.max(running.len());
        let ends = running.iter().map(|run| run.end);
        let hangs = running.iter().map(|run| run.hangs).filter(|at| *at > now);
        let arrival = arrivals.front().map(|at| start + works[*at].at);
        match ends.chain(hangs).chain(arrival).min() {
            Some(next) => now = next,
            None => return (started, most),
        }
    }
}

fn attach(at: Duration, node: String, takes: Duration) -> Work {
    let direction = Direction::Attach;
    Work {
        at,
        direction,
        node,
        takes,
    }
}

fn detach(at: Duration, node: String, takes: Duration) -> Work {
    Work {
        direction: Direction::Detach,
        ..attach(at, node, takes)
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn row_83_ten_at_once_and_four_more_after_a_second() {
    for nodes in [1, 14] {
        let works: Vec<Work> = (0..14)
            .map(|index| attach(Duration::ZERO, node(index % nodes), SECOND))
            .collect();
        let (mut started, most) = simulate(10, &works);
        started.sort();
        assert_eq!(started[..10], [Duration::ZERO; 10]);
        assert_eq!(started[10..], [SECOND; 4]);
        assert_eq!(most, 10);
    }
}

#[test]
fn a_burst_of_slow_detaches_does_not_delay_attaches() {
    let quick = Duration::from_millis(200);
    let attaches = |at| (0..100).map(move |index| attach(at, node(index % 20), quick));
    let alone: Vec<Work> = attaches(Duration::ZERO).collect();
    let (unloaded, _) = simulate(10, &alone);
    let loaded: Vec<Work> = attaches(SECOND)
        .chain((0..2000).map(|index| detach(Duration::ZERO, node(index % 50), SECOND * 10)))
        .collect();
    let (started, most) = simulate(10, &loaded);
    let worst = *started[..100].iter().max().unwrap() - SECOND;
    let before = *unloaded.iter().max().unwrap();
    assert!(worst <= before * 3 / 2, "{worst:?} against {before:?}");
    assert!(most <= 40, "{most}");
    assert!(
        started.iter().all(|at| *at < Duration::MAX),
        "every detach had its turn"
    );
}

#[test]
fn detaches_are_as_many_at_once_as_attaches() {
    let works: Vec<Work> = (0..30)
        .map(|index| detach(Duration::ZERO, node(index), SECOND))
        .collect();
    let (started, most) = simulate(10, &works);
    assert_eq!((most, *started.iter().max().unwrap()), (10, SECOND * 2));
}

#[test]
fn a_node_whose_calls_hang_does_not_hold_up_others() {
    let hang = SECOND * 15;
    let quick = Duration::from_millis(100);
    let works: Vec<Work> = (0..40)
        .map(|_| attach(Duration::ZERO, node(0), hang))
        .chain((1..40).map(|index| attach(SECOND / 10, node(index), quick)))
        .collect();
    let (started, most) = simulate(10, &works);
    let worst = *started[40..].iter().max().unwrap();
    assert!(worst < SECOND * 3, "{worst:?}");
    assert!(most <= 20);
}

#[test]
fn a_driver_that_is_always_slow_is_not_taken_for_hanging() {
    let works: Vec<Work> = (0..100)
        .map(|index| attach(Duration::ZERO, node(index), SECOND * 3 / 2 - SECOND / 100))
        .collect();
    assert_eq!(simulate(10, &works).1, 10);
}

#[test]
fn nodes_take_turns() {
    let works: Vec<Work> = (0..20)
        .map(|_| attach(Duration::ZERO, node(0), SECOND))
        .chain([attach(Duration::ZERO, node(1), SECOND)])
        .collect();
    let (started, _) = simulate(2, &works);
    assert_eq!(
        started[20],
        Duration::ZERO,
        "the second node's only work is not last"
    );
}

#[test]
fn one_thread_is_one_call_at_a_time_and_the_lanes_alternate() {
    let works: Vec<Work> = (0..6)
        .flat_map(|_| {
            [
                detach(Duration::ZERO, node(0), SECOND * 20),
                attach(Duration::ZERO, node(1), SECOND * 20),
            ]
        })
        .collect();
    let (started, most) = simulate(1, &works);
    assert_eq!(most, 1);
    let started = started.iter().zip(&works);
    let mut order: Vec<(Duration, Direction)> =
        started.map(|(at, work)| (*at, work.direction)).collect();
    order.sort();
    for pair in order.windows(2) {
        assert_ne!(pair[0].1, pair[1].1);
    }
}
