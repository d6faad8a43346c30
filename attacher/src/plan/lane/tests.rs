//! Fairness in virtual time: who runs when, with calls that take as long as the test says.

use super::*;

fn node(number: usize) -> Text {
    Text::from(format!("node{number}"))
}

/// One attempt: when it comes, which way, which node, how long it takes.
struct Work {
    at: Duration,
    direction: Direction,
    node: Text,
    takes: Duration,
}

/// Runs all work and returns when each attempt started, and the most that ran at once.
fn simulate(threads: usize, works: &[Work]) -> (Vec<Duration>, usize) {
    let start = Instant::now();
    let mut lanes: Lanes<usize> = Lanes::new(threads);
    let mut started = vec![Duration::MAX; works.len()];
    let mut ends: Vec<(Instant, usize)> = Vec::new();
    let mut arrivals: VecDeque<usize> = {
        let mut order: Vec<usize> = (0..works.len()).collect();
        order.sort_by_key(|index| works[*index].at);
        order.into()
    };
    let (mut now, mut most) = (start, 0);
    loop {
        while let Some(index) = arrivals.pop_front_if(|index| start + works[*index].at <= now) {
            lanes.push(index, works[index].direction, &works[index].node, now);
        }
        for (_, index) in ends.extract_if(.., |(end, _)| *end <= now) {
            lanes.finish(&index, true, now);
        }
        while let Some((index, direction)) = lanes.pop(now) {
            assert_eq!(direction, works[index].direction);
            started[index] = now - start;
            ends.push((now + works[index].takes, index));
        }
        most = most.max(ends.len());
        let next = [
            ends.iter().map(|(end, _)| *end).min(),
            arrivals.front().map(|index| start + works[*index].at),
            lanes.next_change(now),
        ];
        match next.into_iter().flatten().min() {
            Some(next) => now = next,
            None => return (started, most),
        }
    }
}

fn attach(at: Duration, node: Text, takes: Duration) -> Work {
    let direction = Direction::Attach;
    Work {
        at,
        direction,
        node,
        takes,
    }
}

fn detach(at: Duration, node: Text, takes: Duration) -> Work {
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
    assert!(most <= 40);
    assert!(
        started.iter().all(|at| *at < Duration::MAX),
        "every detach had its turn"
    );
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
    let mut order: Vec<(Duration, Direction)> = started
        .iter()
        .zip(&works)
        .map(|(at, work)| (*at, work.direction))
        .collect();
    order.sort();
    for pair in order.windows(2) {
        assert_ne!(pair[0].1, pair[1].1);
    }
}

#[test]
fn a_key_moves_between_lanes_with_its_waiting_time() {
    let start = Instant::now();
    let mut lanes = Lanes::new(1);
    lanes.push("busy", Direction::Attach, &node(0), start);
    assert_eq!(lanes.pop(start), Some(("busy", Direction::Attach)));
    lanes.push("va", Direction::Attach, &node(0), start);
    lanes.push("va", Direction::Attach, &node(0), start + SECOND);
    lanes.push("va", Direction::Detach, &node(0), start + SECOND * 2);
    let now = start + SECOND * 5;
    assert_eq!(
        (
            lanes.depth(Direction::Attach),
            lanes.depth(Direction::Detach)
        ),
        (0, 1)
    );
    assert_eq!(lanes.oldest(Direction::Detach, now), SECOND * 5);
    assert_eq!(lanes.oldest(Direction::Attach, now), Duration::ZERO);
    lanes.withdraw(&"va");
    assert_eq!(lanes.depth(Direction::Detach), 0);
    lanes.finish(&"busy", true, now);
    assert_eq!(lanes.pop(now), None);
}
