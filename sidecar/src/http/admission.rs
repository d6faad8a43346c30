//! Chooses the connection to close when there are too many: a decision without clock or sockets.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How many connections a server keeps open.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of all peers.
    pub all: usize,
    /// Of one peer, without those that wait for the program itself.
    pub per_peer: usize,
}

/// A connection that is this new, or got its response this recently, is spared while there is room at
/// all: a probe's request follows its connection by a moment, which may be long on a busy node.
pub(super) const FRESH: Duration = Duration::from_secs(2);

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No request, or a part of one, has arrived.
    Idle,
    /// A response is not completely sent.
    Sending,
    /// A large response waits until earlier ones are sent.
    Queued,
    /// A response is being rendered.
    Answering,
}

#[derive(Debug)]
struct Connection<C> {
    peer: IpAddr,
    phase: Phase,
    since: Instant,
    /// Closes the connection when dropped.
    close: C,
}

/// Connections, oldest first.
type ByAge = BTreeSet<(Instant, u64)>;

/// Connections that do not wait for the program itself, by state.
#[derive(Debug, Default)]
struct Waiting {
    idle: ByAge,
    sending: ByAge,
    queued: ByAge,
}

impl Waiting {
    fn of(&mut self, phase: Phase) -> Option<&mut ByAge> {
        match phase {
            Phase::Idle => Some(&mut self.idle),
            Phase::Sending => Some(&mut self.sending),
            Phase::Queued => Some(&mut self.queued),
            Phase::Answering => None,
        }
    }

    fn len(&self) -> usize {
        self.idle.len() + self.sending.len() + self.queued.len()
    }

    /// The oldest of each kind, those first that lose least.
    fn oldest(&self) -> [Option<&(Instant, u64)>; 3] {
        [&self.idle, &self.sending, &self.queued].map(BTreeSet::first)
    }

    /// The connection that has been idle for longest; failing that, the one that has left its response
    /// unread for longest. Spares connections that are new or just got a response.
    fn stale(&self, now: Instant) -> Option<u64> {
        let mut stale = { self.oldest().into_iter().flatten() }
            .filter(|(since, _)| now.saturating_duration_since(*since) >= FRESH);
        stale.next().map(|(_, id)| *id)
    }
}

/// The connections of one peer.
#[derive(Debug, Default)]
struct Peer {
    all: ByAge,
    waiting: Waiting,
}

/// The open connections, in the orders in which they may be closed: a peer that opens connections faster
/// than they are used must not make the program scan them all each time.
#[derive(Debug)]
pub(super) struct Admission<C> {
    limits: Limits,
    open: HashMap<u64, Connection<C>>,
    waiting: Waiting,
    peers: BTreeMap<IpAddr, Peer>,
    /// Peers by the number of their connections.
    busiest: BTreeSet<(usize, IpAddr)>,
    next: u64,
}

impl<C> Admission<C> {
    /// No connection is open.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: HashMap::new(),
            waiting: Waiting::default(),
            peers: BTreeMap::new(),
            busiest: BTreeSet::new(),
            next: 0,
        }
    }

    /// Admits a new connection. Returns its number, and the handle that closes the one that had to make
    /// room, if any.
    ///
    /// The new connection is never refused: it may be a probe. If there are too many, or too many of its
    /// peer, the one that has been idle for longest is closed; failing that, the one that has left its
    /// response unread for longest. If there are too many in all, and all of them wait for the program
    /// itself or are new, the peer with the most connections loses its oldest that waits, or else its oldest.
    pub(super) fn admit(&mut self, peer: IpAddr, now: Instant, close: C) -> (u64, Option<C>) {
        let peer = peer.to_canonical();
        let victim = self.victim(peer, now);
        let closed = victim.and_then(|id| self.remove(id));
        let id = self.next;
        self.next += 1;
        let connection = Connection {
            peer,
            phase: Phase::Idle,
            since: now,
            close,
        };
        self.insert(id, connection);
        (id, closed.map(|connection| connection.close))
    }

    fn victim(&self, peer: IpAddr, now: Instant) -> Option<u64> {
        if self.open.len() >= self.limits.all {
            return self.waiting.stale(now).or_else(|| {
                let (_, busiest) = self.busiest.last()?;
                let of = self.peers.get(busiest)?;
                let waiting = of.waiting.oldest().into_iter().flatten().next();
                waiting.or(of.all.first()).map(|(_, id)| *id)
            });
        }
        let own = &self.peers.get(&peer)?.waiting;
        (own.len() >= self.limits.per_peer)
            .then(|| own.stale(now))
            .flatten()
    }

    fn insert(&mut self, id: u64, connection: Connection<C>) {
        let Connection {
            peer, phase, since, ..
        } = connection;
        let of = self.peers.entry(peer).or_default();
        self.busiest.remove(&(of.all.len(), peer));
        of.all.insert((since, id));
        self.busiest.insert((of.all.len(), peer));
        for waiting in [&mut of.waiting, &mut self.waiting] {
            if let Some(of) = waiting.of(phase) {
                of.insert((since, id));
            }
        }
        self.open.insert(id, connection);
    }

    fn remove(&mut self, id: u64) -> Option<Connection<C>> {
        let connection = self.open.remove(&id)?;
        let Connection {
            peer, phase, since, ..
        } = connection;
        if let Some(of) = self.waiting.of(phase) {
            of.remove(&(since, id));
        }
        if let Some(of) = self.peers.get_mut(&peer) {
            self.busiest.remove(&(of.all.len(), peer));
            if let Some(of) = of.waiting.of(phase) {
                of.remove(&(since, id));
            }
            of.all.remove(&(since, id));
            if of.all.is_empty() {
                self.peers.remove(&peer);
            } else {
                self.busiest.insert((of.all.len(), peer));
            }
        }
        Some(connection)
    }

    /// Records a connection's new state.
    pub(super) fn enter(&mut self, id: u64, phase: Phase, now: Instant) {
        if self.phase(id).is_some_and(|before| before != phase)
            && let Some(connection) = self.remove(id)
        {
            let since = now;
            self.insert(
                id,
                Connection {
                    phase,
                    since,
                    ..connection
                },
            );
        }
    }

    /// The state of a connection, unless it has been closed.
    pub(super) fn phase(&self, id: u64) -> Option<Phase> {
        self.open.get(&id).map(|connection| connection.phase)
    }

    /// Removes a connection that ended.
    pub(super) fn leave(&mut self, id: u64) {
        self.remove(id);
    }

    /// Removes the connections whose response has been unread for `patience`, and returns the handles
    /// that close them.
    pub(super) fn not_reading(&mut self, patience: Duration, now: Instant) -> Vec<C> {
        let stuck = { self.waiting.sending.iter() }
            .take_while(|(since, _)| now.saturating_duration_since(*since) >= patience);
        let stuck: Vec<u64> = stuck.map(|(_, id)| *id).collect();
        let stuck = stuck.into_iter().filter_map(|id| self.remove(id));
        stuck.map(|connection| connection.close).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::server::LIMITS;

    const CONNECTIONS: usize = LIMITS.all;
    const PER_PEER: usize = LIMITS.per_peer;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    /// Connections in the order of their numbers, a millisecond apart; the number serves as the `close`
    /// handle.
    fn crowd(peers: impl IntoIterator<Item = IpAddr>) -> (Admission<u64>, Instant) {
        let mut admission = Admission::new(LIMITS);
        let mut now = Instant::now();
        for (number, peer) in (0..).zip(peers) {
            now += Duration::from_millis(1);
            assert_eq!(admission.admit(peer, now, number), (number, None));
        }
        (admission, now)
    }

    fn many() -> impl Iterator<Item = IpAddr> {
        (0..CONNECTIONS).map(|number| peer(u8::try_from(number % 16).unwrap()))
    }

    #[test]
    fn fs_11_who_has_to_go_when_there_are_too_many() {
        let new = peer(100);
        let (mut full, now) = crowd(many());
        let later = now + FRESH;
        assert_eq!(full.admit(new, later, 1000).1, Some(0), "the oldest");

        let (mut full, now) = crowd(many());
        full.enter(0, Phase::Answering, now);
        full.enter(1, Phase::Sending, now);
        let later = now + FRESH;
        assert_eq!(full.admit(new, later, 1000).1, Some(2), "the oldest idle");

        let (mut full, now) = crowd(many());
        for id in 0..CONNECTIONS as u64 {
            full.enter(id, Phase::Answering, now);
        }
        full.enter(7, Phase::Sending, now);
        let later = now + FRESH;
        assert_eq!(full.admit(new, later, 1000).1, Some(7), "does not read");

        let (mut full, now) = crowd(many());
        full.enter(0, Phase::Sending, now);
        let later = now + FRESH;
        full.enter(0, Phase::Idle, later);
        assert_eq!(full.admit(new, later, 1000).1, Some(1), "not just served");
    }

    #[test]
    fn fs_11_a_probe_is_not_closed_for_those_who_come_after_it() {
        let (mut busy, mut now) = crowd(std::iter::repeat_n(peer(1), PER_PEER));
        let (probe, _) = busy.admit(peer(1), now, 1000);
        for number in 0..300 {
            now += Duration::from_millis(6);
            busy.admit(peer(1), now, 2000 + number);
            assert!(busy.phase(probe).is_some(), "{number}");
        }
        now += FRESH;
        for number in 0..=PER_PEER as u64 {
            busy.admit(peer(1), now, 3000 + number);
        }
        assert_eq!(busy.phase(probe), None, "it has had its time");
    }

    #[test]
    fn fs_11_where_all_wait_for_the_program_the_peer_with_the_most_loses_one() {
        let mut full = Admission::new(LIMITS);
        let now = Instant::now();
        for number in 0..CONNECTIONS as u64 {
            let peer = peer(if number == 0 { 1 } else { 2 });
            assert_eq!(full.admit(peer, now, number), (number, None));
            full.enter(number, Phase::Answering, now);
        }
        assert_eq!(full.admit(peer(3), now, 1000).1, Some(1));
    }

    #[test]
    fn fs_11_a_peer_with_too_many_loses_its_own() {
        let scraper = std::iter::once(peer(1));
        let (mut admission, now) = crowd(scraper.chain(std::iter::repeat_n(peer(2), PER_PEER)));
        let later = now + FRESH;
        assert_eq!(admission.admit(peer(2), later, 1000).1, Some(1));
        let mapped: IpAddr = "::ffff:10.0.0.2".parse().unwrap();
        assert_eq!(admission.admit(mapped, later, 1001).1, Some(2), "the same");
        assert_eq!(admission.admit(peer(3), later, 1002).1, None);
    }

    #[test]
    fn fs_11_health_checks_under_way_are_not_counted_against_their_peer() {
        let (mut admission, now) = crowd(std::iter::repeat_n(peer(1), PER_PEER));
        for id in 0..PER_PEER as u64 {
            admission.enter(id, Phase::Answering, now);
        }
        assert_eq!(admission.admit(peer(1), now, 1000).1, None);
    }

    #[test]
    fn fs_11_who_does_not_read_is_taken_out() {
        let (mut admission, now) = crowd([peer(1), peer(2), peer(3)]);
        admission.enter(0, Phase::Sending, now);
        admission.enter(1, Phase::Sending, now + Duration::from_millis(1));
        let patience = Duration::from_secs(1);
        assert_eq!(admission.not_reading(patience, now + patience), [0]);
        assert_eq!((admission.phase(0), admission.open.len()), (None, 2));
    }

    /// CPU time of this thread, which does not depend on the load of the machine.
    fn processor_time() -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(now).expect("not negative")
    }

    #[test]
    fn e_7_who_has_to_go_is_found_without_looking_at_all() {
        let cost = |open: usize| {
            let (mut admission, mut now) = crowd(many().take(open));
            now += FRESH;
            let begun = processor_time();
            for number in 0..20_000 {
                now += Duration::from_millis(1);
                let (id, _closed) = admission.admit(peer(1), now, 1000 + number);
                admission.enter(id, Phase::Answering, now);
                admission.enter(id, Phase::Sending, now);
                if open < CONNECTIONS {
                    admission.leave(id);
                }
            }
            processor_time() - begun
        };
        let (few, full) = (cost(1), cost(CONNECTIONS));
        assert!(
            full < few * 20,
            "{full:?} with a full house, {few:?} without"
        );
    }

    /// The reference result, from a scan of all connections.
    fn expected(open: &Admission<u64>, peer: IpAddr, now: Instant) -> Option<u64> {
        let waits = |other: &&Connection<u64>| other.phase != Phase::Answering;
        let is_stale =
            |other: &&Connection<u64>| now.saturating_duration_since(other.since) >= FRESH;
        let own = |other: &&Connection<u64>| other.peer == peer;
        let stale = |among: &dyn Fn(&&Connection<u64>) -> bool| {
            let stale =
                { open.open.values() }.filter(|one| among(one) && waits(one) && is_stale(one));
            let first = stale.min_by_key(|one| (one.phase, one.since, one.close));
            first.map(|one| one.close)
        };
        if open.open.len() >= CONNECTIONS {
            return stale(&|_| true).or_else(|| {
                let count = |of: IpAddr| open.open.values().filter(|one| one.peer == of).count();
                let busiest = open
                    .open
                    .values()
                    .map(|one| (count(one.peer), one.peer))
                    .max();
                let of = open
                    .open
                    .values()
                    .filter(|one| Some(one.peer) == busiest.map(|(_, peer)| peer));
                let first = of.min_by_key(|one| (one.since, one.close));
                first.map(|one| one.close)
            });
        }
        let count = open.open.values().filter(own).filter(waits).count();
        (count >= PER_PEER).then(|| stale(&own)).flatten()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Come(u8),
        Enter(u64, Phase),
        Leave(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let phase = prop::sample::select(vec![
            Phase::Idle,
            Phase::Sending,
            Phase::Queued,
            Phase::Answering,
        ]);
        let number = 0..1200_u64;
        prop_oneof![
            12 => (0..12_u8).prop_map(Step::Come),
            4 => (number.clone(), phase).prop_map(|(id, phase)| Step::Enter(id, phase)),
            1 => number.prop_map(Step::Leave),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// The bounds hold, no connection is closed without need, and the newest always stays.
        #[test]
        fn fs_11_bounded_and_open_to_everybody(steps in prop::collection::vec(step(), 0..1200)) {
            let mut admission: Admission<u64> = Admission::new(LIMITS);
            let mut open = BTreeSet::new();
            let mut now = Instant::now();
            let mut next = 0;
            for step in steps {
                now += Duration::from_millis(3);
                match step {
                    Step::Come(number) => {
                        let expected = expected(&admission, peer(number), now);
                        let (id, closed) = admission.admit(peer(number), now, next);
                        prop_assert_eq!((id, closed), (next, expected));
                        next += 1;
                        if let Some(closed) = closed {
                            prop_assert!(open.remove(&closed));
                        }
                        open.insert(id);
                        prop_assert_eq!(admission.phase(id), Some(Phase::Idle));
                    }
                    Step::Enter(id, phase) => admission.enter(id, phase, now),
                    Step::Leave(id) => {
                        admission.leave(id);
                        open.remove(&id);
                    }
                }
                prop_assert!(admission.open.len() <= CONNECTIONS);
            }
            prop_assert!(admission.open.keys().copied().collect::<BTreeSet<_>>() == open);
        }
    }
}
