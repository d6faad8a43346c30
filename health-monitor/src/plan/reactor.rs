//! The health monitor as one object: what it remembers, what events make due, and its attempts.
//!
//! | file | attempts |
//! |---|---|
//! | `cycle` | a list, or whose turn it is to be asked about |
//! | `driver` | none itself: what the driver is asked, and what is left of an earlier one |
//! | `report` | none itself: what the driver reports, and who is to hear of it |
//! | `volume` | a question about one volume, and what comes of a report for its claims |

mod cycle;
mod driver;
mod report;
mod volume;

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

/// The queue of the cycle.
pub const CYCLES: usize = 0;
/// The queue of volumes.
pub const VOLUMES: usize = 1;

/// The longest wait of a volume about which the driver gives no answer.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// More pages than a list has in the time after which it is given up; one that has more is incomplete.
const MOST_REQUESTS: u32 = 1 << 20;

/// A queue key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// The driver's list, or whose turn it is to be asked about.
    Cycle,
    /// The volume with this handle.
    Volume(Text),
}

/// An event of the caches or of the driver's connection.
#[derive(Debug)]
pub enum Change<'a> {
    /// A PersistentVolume of this name is new, has changed, or is gone or not bound any more.
    Volume {
        /// Its name.
        name: Text,
        /// The cached record before.
        old: Option<&'a Volume>,
        /// The cached record now.
        new: Option<&'a Volume>,
    },
    /// All caches are complete.
    Ready,
    /// The driver can be asked again.
    DriverBack,
}

/// An attempt on a key.
pub enum Attempt {
    /// On the cycle.
    Cycle(cycle::Run),
    /// On a volume.
    Volume(volume::Run),
}

/// A log line or a metric that is due.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The driver is asked this from now on.
    Mode(Mode),
    /// The driver does not have the calls that it announces.
    Refuses,
    /// Earlier events could not be listed.
    NoHistory(ApiError),
    /// A list is not complete.
    Incomplete(Gap),
    /// Lists do not work: the driver is asked about single volumes.
    Instead,
    /// They do again.
    Lists,
    /// A round of questions takes this long, which is longer than the interval.
    Slow(Duration),
    /// A list or a round took this long.
    Cycle(Duration),
    /// The health of a volume has changed, from this to that.
    Health(Conditions, Conditions),
    /// So many conditions of a report are left out, for their statuses are not known.
    LeftOut(usize),
    /// The driver has a status of this number, which this build does not know.
    Unknown(i32),
    /// This volume has more conditions than a claim can have, by so many.
    Surplus(Text, usize),
    /// The API server drops health conditions. Whether that is news.
    Dropped(bool),
    /// It keeps them.
    Kept,
    /// The claim of this volume is another one by now.
    Another(Text),
}

/// Why an attempt is to be retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The driver did not say how the volume is.
    Unanswered(RpcError),
    /// The claim could not be written.
    Unwritten(Text, ApiError),
}

/// The driver has not answered about a volume.
#[derive(Clone, Copy, Debug)]
struct Failing {
    /// How often in a row.
    times: u32,
    /// It was not there to be asked.
    away: bool,
}

/// How the driver's lists go.
#[derive(Debug, Default)]
struct Lists {
    /// Incomplete ones in a row.
    incomplete: u32,
    /// They do not work, and the next one is tried then.
    next: Option<Instant>,
    /// Complete ones in a row that do not have this volume, whose claim has conditions.
    without: HashMap<Text, u32>,
}

type Informed<'a> = &'a (dyn Informers + 'static);
type Wakes = Due<Key, Notice>;

/// The health monitor.
#[derive(Debug)]
pub struct HealthMonitor {
    settings: Settings,
    /// All caches are complete.
    ready: bool,
    /// What the driver is asked; `None` before the first cycle.
    mode: Option<Mode>,
    /// How often the driver has come back.
    generation: u64,
    /// It does not have the call about single volumes that it announces.
    refuses: bool,
    volumes: Volumes,
    lists: Lists,
    pace: Pace,
    /// Volumes that the driver is about to be asked about.
    asked: HashSet<Text>,
    failing: HashMap<Text, Failing>,
    /// Volumes on which an attempt is under way.
    busy: HashSet<Text>,
    /// Reports that have to be written to claims, or sent as events.
    reports: HashMap<Text, Report>,
    /// Volumes with conditions, as the driver said last.
    unhealthy: HashMap<Text, Conditions>,
    field: Field,
    /// Claims that are others than their volumes say.
    others: HashMap<Text, Uid>,
    /// The last event of each claim whose volume is abnormal.
    told: HashMap<Uid, Told>,
    /// Claims with an event of an earlier process that their volumes are abnormal; `None` before these were listed.
    earlier: Option<HashSet<Uid>>,
    /// Statuses that the log has named.
    named: HashSet<i32>,
    /// Volumes with too many conditions, of which the log has said so.
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
            // With incomplete caches, claims would seem to have no conditions. Work begins soon anyway.
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
            // As many as there are claims of it.
            Key::Volume(handle) => {
                let claims = u32::try_from(self.volumes.of(handle).len());
                claims.unwrap_or(u32::MAX).saturating_add(2)
            }
        }
    }
}

impl HealthMonitor {
    /// It knows nothing yet.
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

    /// There is no volume with this handle any more. Nothing of its claim is cleared.
    fn forget(&mut self, handle: &Text, due: &mut Wakes) {
        self.lists.without.remove(handle);
        self.failing.remove(handle);
        self.reports.remove(handle);
        self.surplus.remove(handle);
        self.field.forget(handle);
        // An attempt that is under way is the end of these itself.
        if !self.busy.contains(handle) {
            self.asked.remove(handle);
        }
        self.is_now(handle, &Conditions::default(), due);
    }

    /// How long a volume waits about which the driver gives no answer.
    fn wait(&self, times: u32) -> Duration {
        let interval = self.settings.interval;
        RetryPolicy::new(interval, LONGEST_WAIT.max(interval)).delay(times, 0.0)
    }
}

fn wake(key: Key, due: &mut Wakes) {
    wake_with(key, false, due);
}

/// `unless_delayed`: what it waits out after a failure goes on.
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
