//! The health monitor as one object: its state, its reaction to changes, and its attempts.
//!
//! | file | attempts |
//! |---|---|
//! | `cycle` | a list of all volumes, or the choice of the next volume to query |
//! | `driver` | none itself: the current mode, and the switch to a restarted driver |
//! | `report` | none itself: the driver's reports, and the writes and events they cause |
//! | `volume` | a query about one volume, and the updates of its claims |
//! | `why` | none itself: the answers of `--why-endpoint` about one object |

mod cycle;
mod driver;
mod report;
mod volume;
mod why;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use sidecar::controller::reactor::{Due, Now, Reactor, Verdict, Wake};
use sidecar::queue::Place;
use sidecar::refusal::ApiError;
use sidecar::retry::RetryPolicy;
use sidecar::rpc_code::RpcError;

use super::event::Told;
use super::field::Field;
use super::informers::Informers;
use super::list::{Gap, Report};
use super::mode::Mode;
use super::pace::Pace;
use super::request::{Reply, Request};
use super::settings::Settings;
use super::volumes::Volumes;
use crate::model::{Conditions, Text, Uid, Volume};

/// Index of the queue for the cycle.
pub const CYCLES: usize = 0;
/// Index of the queue for volumes.
pub const VOLUMES: usize = 1;

/// Longest back-off for a volume about which the driver gives no answer.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// More pages than a list can have within its time limit; a longer list is incomplete.
const MOST_REQUESTS: u32 = 1 << 20;

/// A queue key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// The driver's list, or the choice of the next volume to query.
    Cycle,
    /// The volume with this handle.
    Volume(Text),
}

/// A change of the caches or of the driver's connection.
#[derive(Debug)]
pub enum Change<'a> {
    /// A PersistentVolume was created or changed, was deleted, or is no longer bound.
    Volume {
        /// `metadata.name`.
        name: Text,
        /// The previous cached record.
        old: Option<&'a Volume>,
        /// The new cached record.
        new: Option<&'a Volume>,
    },
    /// All caches are complete.
    Ready,
    /// The driver is reachable again.
    DriverBack,
}

/// An attempt on a key.
pub enum Attempt {
    /// An attempt on the cycle.
    Cycle(cycle::Run),
    /// An attempt on a volume.
    Volume(volume::Run),
}

/// A log line or a metric to emit.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The calls that the driver gets from now on.
    Mode(Mode),
    /// The driver does not implement the call that it announces.
    Refuses,
    /// Events of earlier processes could not be listed.
    NoHistory(ApiError),
    /// A list is incomplete.
    Incomplete(Gap),
    /// Lists keep failing; the driver is queried about single volumes instead.
    Instead,
    /// Lists work again.
    Lists,
    /// A round of queries takes this long, which exceeds the interval.
    Slow(Duration),
    /// Duration of a list or a round.
    Cycle(Duration),
    /// The health of a volume changed, from the first to the second.
    Health(Conditions, Conditions),
    /// Number of conditions dropped from a report because their status is unknown.
    LeftOut(usize),
    /// The driver reports a status number that this build does not know.
    Unknown(i32),
    /// This volume has more conditions than a claim can hold, by this number.
    Surplus(Text, usize),
    /// The API server drops health conditions. `true` if this was not known.
    Dropped(bool),
    /// The API server stores health conditions.
    Kept,
    /// This claim is not the one that its volume is bound to.
    Another(Text),
}

/// Why an attempt will be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The driver did not report the health of the volume.
    Unanswered(RpcError),
    /// The claim could not be written.
    Unwritten(Text, ApiError),
}

/// Failed queries about a volume.
#[derive(Clone, Copy, Debug)]
struct Failing {
    /// Number of failures in a row.
    times: u32,
    /// Whether the driver was unreachable.
    away: bool,
}

/// The state of the driver's lists.
#[derive(Clone, Debug, Default)]
struct Lists {
    /// Number of incomplete lists in a row.
    incomplete: u32,
    /// Set while lists do not work: when to try the next one.
    next: Option<Instant>,
    /// Number of complete lists in a row without this volume, whose claim has conditions.
    without: HashMap<Text, u32>,
}

type Informed<'a> = &'a (dyn Informers + 'static);
type Wakes = Due<Key, Notice>;

/// The health monitor.
#[derive(Clone, Debug)]
pub struct HealthMonitor {
    settings: Settings,
    /// Whether all caches are complete.
    ready: bool,
    /// The mode by capabilities; `None` before the first cycle.
    mode: Option<Mode>,
    /// Number of times the driver has come back.
    generation: u64,
    /// Whether the driver does not implement the call about single volumes that it announces.
    refuses: bool,
    volumes: Volumes,
    lists: Lists,
    pace: Pace,
    /// Volumes with a query that is queued or running.
    asked: HashSet<Text>,
    failing: HashMap<Text, Failing>,
    /// Volumes with a running attempt.
    busy: HashSet<Text>,
    /// Reports to write to claims or to send as events.
    reports: HashMap<Text, Report>,
    /// Volumes with conditions, by the driver's last report.
    unhealthy: HashMap<Text, Conditions>,
    field: Field,
    /// Claims whose UID differs from the one in their volume's `claimRef`.
    others: HashMap<Text, Uid>,
    /// The last event about each claim whose volume is abnormal.
    told: HashMap<Uid, Told>,
    /// Claims about which an earlier process sent an event; `None` until these events were listed.
    earlier: Option<HashSet<Uid>>,
    /// Unknown statuses that were already logged.
    named: HashSet<i32>,
    /// Volumes with too many conditions for which that was already logged.
    surplus: HashSet<Text>,
}

impl Reactor for HealthMonitor {
    type Key = Key;
    type Informers = dyn Informers;
    type Change<'a> = Change<'a>;
    type Attempt = Attempt;
    type Request = Request;
    type Notice = Notice;
    type Failure = Failed;

    fn observe(&mut self, change: Change<'_>, informers: Informed<'_>) -> Wakes {
        let mut due = Wakes::default();
        match change {
            Change::Volume { name, old, new } => self.volume_changed(&name, old, new, &mut due),
            Change::Ready => {
                self.ready = true;
                wake(Key::Cycle, &mut due);
            }
            Change::DriverBack if self.ready => self.driver_is_back(informers, &mut due),
            // With incomplete caches, claims would seem to have no conditions. `Ready` starts the work soon anyway.
            Change::DriverBack => {}
        }
        due
    }

    fn begin(&mut self, key: &Key, informers: Informed<'_>, now: Now) -> Attempt {
        match key {
            Key::Cycle => Attempt::Cycle(self.begin_cycle(informers, now.instant)),
            Key::Volume(handle) => Attempt::Volume(self.begin_volume(handle)),
        }
    }

    fn decide(
        &mut self,
        attempt: &mut Attempt,
        informers: Informed<'_>,
        now: Now,
    ) -> Option<Request> {
        match attempt {
            Attempt::Cycle(run) => self.decide_cycle(run, now.instant),
            Attempt::Volume(run) => self.decide_volume(run, informers, now),
        }
    }

    fn answered(&mut self, attempt: &mut Attempt, reply: Reply, informers: Informed<'_>) -> Wakes {
        let mut due = Wakes::default();
        match attempt {
            Attempt::Cycle(run) => self.cycle_answered(run, reply, informers, &mut due),
            Attempt::Volume(run) => self.volume_answered(run, reply, &mut due),
        }
        due
    }

    fn end(
        &mut self,
        attempt: Attempt,
        informers: Informed<'_>,
        now: Now,
    ) -> (Verdict<Failed>, Wakes) {
        let mut due = Wakes::default();
        let verdict = match attempt {
            Attempt::Cycle(run) => self.end_cycle(run, informers, now.instant, &mut due),
            Attempt::Volume(run) => self.end_volume(run, informers, now.instant, &mut due),
        };
        (verdict, due)
    }

    fn most_requests(&self, key: &Key) -> u32 {
        match key {
            Key::Cycle => MOST_REQUESTS,
            // One write per claim of this handle, and a margin.
            Key::Volume(handle) => {
                let claims = u32::try_from(self.volumes.of(handle).len());
                claims.unwrap_or(u32::MAX).saturating_add(2)
            }
        }
    }
}

impl HealthMonitor {
    /// A health monitor without any state.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ready: false,
            mode: None,
            generation: 0,
            refuses: false,
            volumes: Volumes::default(),
            lists: Lists::default(),
            pace: Pace::default(),
            asked: HashSet::new(),
            failing: HashMap::new(),
            busy: HashSet::new(),
            reports: HashMap::new(),
            unhealthy: HashMap::new(),
            field: Field::default(),
            others: HashMap::new(),
            told: HashMap::new(),
            earlier: None,
            named: HashSet::new(),
            surplus: HashSet::new(),
        }
    }

    fn volume_changed(
        &mut self,
        name: &Text,
        old: Option<&Volume>,
        new: Option<&Volume>,
        due: &mut Wakes,
    ) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.others.remove(&old.claim);
            if new.is_none_or(|new| new.uid != old.uid) {
                self.told.remove(&old.uid);
            }
            let moved = new.is_none_or(|new| new.handle != old.handle);
            if moved && self.volumes.remove(&old.handle, name) {
                self.forget(&old.handle, due);
            }
        }
        if let Some(new) = new {
            self.volumes.add(&new.handle, name);
            if self.asks_each() {
                self.pace.fresh(&new.handle);
                wake(Key::Cycle, due);
            }
        }
    }

    /// No volume has this handle any more. Conditions of its claim are left in place.
    fn forget(&mut self, handle: &Text, due: &mut Wakes) {
        self.lists.without.remove(handle);
        self.failing.remove(handle);
        self.reports.remove(handle);
        self.surplus.remove(handle);
        self.field.forget(handle);
        // A running attempt removes the entry itself.
        if !self.busy.contains(handle) {
            self.asked.remove(handle);
        }
        self.is_now(handle, &Conditions::default(), due);
    }

    /// Back-off for a volume about which the driver gives no answer.
    fn wait(&self, times: u32) -> Duration {
        let interval = self.settings.interval;
        RetryPolicy::new(interval, LONGEST_WAIT.max(interval)).delay(times, 0.0)
    }
}

fn wake(key: Key, due: &mut Wakes) {
    wake_with(key, false, due);
}

/// `unless_delayed`: leaves a key in back-off there.
fn wake_with(key: Key, unless_delayed: bool, due: &mut Wakes) {
    let queue = match key {
        Key::Cycle => CYCLES,
        Key::Volume(_) => VOLUMES,
    };
    due.wakes.push(Wake {
        queue,
        key,
        place: Place::default(),
        unless_delayed,
    });
}

#[cfg(test)]
mod tests;
