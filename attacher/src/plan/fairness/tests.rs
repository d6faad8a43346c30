//! Fairness in virtual time, with the real queue: which attempt runs when, for calls of a given
//! duration.

use std::collections::VecDeque;
use std::time::Instant;

use sidecar::queue::State;

use super::*;

fn node(number: usize) -> String {
    format!("node{number}")
}

/// One attempt: its arrival, direction, node and duration.
struct Work {
    at: Duration,
    direction: Direction,
    node: String,
    takes: Duration,
}

struct Run {
    index: usize,
    end: Instant,
    hangs: Option<Instant>,
}

/// `--timeout`.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Runs all work; attempts that time out are repeated up to four times. Returns when each first
/// started, and the highest number that ran at once.
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
        queue.advance(now);
        for run in running.extract_if(.., |run| run.end <= now) {
            let takes = works[run.index].takes;
            if takes < TIMEOUT || queue.failures(&run.index) == 3 {
                pace[index(works[run.index].direction)].observe(takes);
                queue.done(&run.index, now);
            } else {
                queue.hangs(&run.index);
                queue.retry(&run.index, now, |failures| SECOND * failures);
            }
        }
        for run in running
            .iter()
            .filter(|run| run.hangs.is_some_and(|at| at <= now))
        {
            queue.hangs(&run.index);
        }
        while let Some(popped) = queue.pop(now) {
            let work = &works[popped.key];
            started[popped.key] = started[popped.key].min(now - start);
            running.push(Run {
                index: popped.key,
                end: now + work.takes.min(TIMEOUT),
                hangs: pace[index(work.direction)].limit().map(|limit| now + limit),
            });
        }
        most = most.max(running.len());
        let ends = running.iter().map(|run| run.end);
        let hangs = running
            .iter()
            .filter_map(|run| run.hangs)
            .filter(|at| *at > now);
        let arrival = arrivals.front().map(|at| start + works[*at].at);
        match ends
            .chain(hangs)
            .chain(arrival)
            .chain(queue.next_due())
            .min()
        {
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

/// 2,000 detaches at once, a second later 100 attaches of 200 ms. By themselves the attaches take
/// two seconds.
fn burst(takes: Duration) -> (Vec<Duration>, usize) {
    let quick = Duration::from_millis(200);
    let attaches = (0..100).map(|index| attach(SECOND, node(index % 20), quick));
    let works: Vec<Work> = attaches
        .chain((0..2000).map(|index| detach(Duration::ZERO, node(index % 50), takes)))
        .collect();
    simulate(10, &works)
}

#[test]
fn fs_1_worker_threads_cap_what_the_storage_sees() {
    for takes in [SECOND / 10, SECOND, SECOND * 8, TIMEOUT] {
        let (started, most) = burst(takes);
        assert_eq!(most, 10, "{takes:?}");
        let every = started.iter().all(|at| *at < Duration::MAX);
        assert!(every, "every detach has its turn");
        for threads in 1..=12 {
            let works: Vec<Work> = (0..60)
                .map(|index| match index % 3 {
                    0 => attach(Duration::ZERO, node(index % 7), takes),
                    _ => detach(Duration::ZERO, node(index % 7), takes),
                })
                .collect();
            assert_eq!(simulate(threads, &works).1, threads, "{takes:?}");
        }
    }
}

#[test]
fn a_burst_of_slow_detaches_does_not_starve_attaches() {
    for takes in [SECOND * 2, SECOND * 8, SECOND * 10] {
        let (started, _) = burst(takes);
        let attaches = &started[..100];
        let first = *attaches.iter().min().unwrap() - SECOND;
        assert_eq!(first, Duration::ZERO, "two slots are free for them");
        // Two slots until the first detaches end, then half of all: twice what the attaches take by
        // themselves.
        let worst = *attaches.iter().max().unwrap() - SECOND;
        assert!(worst <= takes + SECOND * 4, "{takes:?}: {worst:?}");
    }
}

#[test]
fn with_both_lanes_busy_each_has_half() {
    let works: Vec<Work> = (0..100)
        .map(|index| attach(Duration::ZERO, node(index), SECOND))
        .chain((0..100).map(|index| detach(SECOND / 2, node(index), SECOND)))
        .collect();
    let (started, _) = simulate(10, &works);
    let at = |time: Duration| move |at: &&Duration| **at <= time && **at + SECOND > time;
    let attaches = started[..100].iter().filter(at(SECOND * 5)).count();
    let detaches = started[100..].iter().filter(at(SECOND * 5)).count();
    assert_eq!((attaches, detaches), (5, 5));
}

#[test]
fn detaches_leave_a_fifth_for_attaches() {
    let works: Vec<Work> = (0..24)
        .map(|index| detach(Duration::ZERO, node(index), SECOND))
        .collect();
    let (started, most) = simulate(10, &works);
    assert_eq!((most, *started.iter().max().unwrap()), (8, SECOND * 2));
}

#[test]
fn a_node_whose_calls_hang_holds_up_others_once_at_most() {
    let quick = Duration::from_millis(100);
    let works: Vec<Work> = (0..40)
        .map(|_| attach(Duration::ZERO, node(0), TIMEOUT))
        .chain((1..20).map(|index| attach(Duration::ZERO, node(index), quick)))
        .chain((1..20).map(|index| attach(SECOND * 3, node(index), quick)))
        .chain((1..20).map(|index| attach(SECOND * 22, node(index), quick)))
        .collect();
    let (started, most) = simulate(10, &works);
    assert_eq!(most, 10);
    let latest = |range: std::ops::Range<usize>| *started[range].iter().max().unwrap();
    assert!(latest(40..59) < SECOND, "they run least, and go first");
    assert!(
        latest(59..78) < TIMEOUT + SECOND * 2,
        "no slot is free before"
    );
    assert!(latest(78..97) < SECOND * 23, "half of the slots is theirs");
}

#[test]
fn a_driver_that_is_always_slow_is_not_taken_for_hanging() {
    for takes in [SECOND, SECOND * 8, SECOND * 14] {
        let works: Vec<Work> = (0..100)
            .map(|index| attach(Duration::ZERO, node(index % 3), takes))
            .collect();
        let (started, most) = simulate(10, &works);
        assert_eq!(most, 10);
        assert_eq!(
            *started.iter().max().unwrap(),
            takes * 9,
            "all slots are used"
        );
    }
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
