//! The real shell with real leases, on a model API server in paused time. Only the controllers, which
//! end by themselves, on request or never, and the driver, which disappears and comes back, are models.
//!
//! Invariants: no controller runs for long without its own lease and the head, a ready process requests
//! or holds a lease, and health never hangs. Without faults, all controllers come to work, and after a
//! signal the process ends in time.

mod made_up;

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use http::StatusCode;
use sidecar::controller::serve::{Hindrances, LeaderHealth};
use sidecar::kube::access::Findings;
use sidecar::metrics::Registry;
use sidecar::outage::Outage;
use sidecar_testkit::api::FakeApi;
use sidecar_testkit::api::fault::Fault;
use sidecar_testkit::sim::{self, Dice};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::timeout;

use super::*;
use made_up::{Conduct, MadeUp, NAMES, Run, Seen};

const S: Duration = Duration::from_secs(1);
/// Interval between checks of the invariants.
const TICK: Duration = Duration::from_millis(250);
const GRACE_OF_A_POD: Duration = Duration::from_secs(30);
/// Enough time for a lease that was edited by hand to expire, a standby to take the head and then the
/// other leases, and a controller that kept failing to get through its back-off.
const CALM: Duration = Duration::from_secs(420);
/// Enough time for a standby whose request hangs and that then waits before its next one: little more
/// than the duration of a lease.
const SOON: Duration = Duration::from_secs(17);

/// A process, seen from outside.
struct Story {
    api: FakeApi,
    seen: Rc<Seen>,
    driver: watch::Sender<bool>,
    ending: watch::Sender<bool>,
    electors: Arc<()>,
    health: LeaderHealth,
    shown: Shown,
    process: JoinHandle<Result<(), Exit>>,
}

impl Story {
    fn begin() -> Self {
        let (driver, is_there) = watch::channel(true);
        let (ending, requested) = Requested::channel();
        let (api, seen, electors) = (FakeApi::new(), Rc::<Seen>::default(), Arc::new(()));
        let health = LeaderHealth::default();
        let (server, hindrances) = (Outage::default(), Hindrances::default());
        let about = (health.clone(), Findings::default(), server, hindrances);
        let shown = Shown::of(&Registry::new(), about, ending.subscribe(), None).unwrap();
        shown.driver_is_named();
        let mut made_up = MadeUp {
            api: api.clone(),
            seen: Rc::clone(&seen),
            fence: Fence::default(),
            driver: is_there,
            health: health.clone(),
            electors: Arc::clone(&electors),
        };
        let process = spawn_local({
            let shown = shown.clone();
            async move { run(&mut made_up, &requested, Vec::new(), (true, &shown)).await }
        });
        Self {
            api,
            seen,
            driver,
            ending,
            electors,
            health,
            shown,
            process,
        }
    }

    /// Lets time pass and checks the invariants.
    async fn pass(&self, time: Duration) {
        let mut passed = Duration::ZERO;
        while passed < time {
            tokio::time::sleep(TICK).await;
            passed += TICK;
            self.look();
        }
    }

    fn runs(&self) -> Vec<Rc<Run>> {
        let runs = &mut *self.seen.runs.borrow_mut();
        runs.retain(|run| run.strong_count() > 0);
        runs.iter().filter_map(Weak::upgrade).collect()
    }

    fn look(&self) {
        let runs = self.runs();
        let more = |time: &Cell<Duration>, is: bool| {
            time.set(if is {
                time.get() + TICK
            } else {
                Duration::ZERO
            });
            time.get()
        };
        for run in &runs {
            let may_act = run.fences.iter().all(|fence| fence.poll_send().is_ready());
            assert!(
                more(&run.astray, !may_act) < S,
                "{} goes on",
                NAMES[run.place]
            );
            let same = runs.iter().filter(|other| other.place == run.place);
            assert_eq!(same.count(), 1, "{} runs twice", NAMES[run.place]);
        }
        // One reference belongs to the story, one to the process.
        let asks = Arc::strong_count(&self.electors) > 2;
        let is_ready = self.shown.ready().status == StatusCode::OK;
        let idle = more(&self.seen.idle, is_ready && !asks);
        assert!(idle < S, "ready, and neither leads nor seeks");
        assert_eq!(self.health.problem(), None);
    }

    /// Ends all faults.
    fn calm(&self) {
        self.api.clear_faults();
        self.driver.send_replace(true);
        self.seen.conduct.set(Some(Conduct::Obeys(S)));
    }

    async fn all_work(&self, within: Duration) {
        let mut waited = Duration::ZERO;
        while self.runs().len() < NAMES.len() {
            assert!(!self.process.is_finished(), "it has ended");
            assert!(waited < within, "{} at work", self.runs().len());
            self.pass(TICK).await;
            waited += TICK;
        }
    }

    async fn ends_within(mut self, limit: Duration) {
        self.ending.send_replace(true);
        let ended = timeout(limit, &mut self.process).await;
        assert_eq!(ended.expect("in time").unwrap(), Ok(()));
        assert!(self.runs().is_empty());
        assert_eq!(Arc::strong_count(&self.electors), 1);
    }

    /// Ends without obstacles: all leases are released, the head last.
    async fn ends_well(self) {
        let api = self.api.clone();
        api.clear_requests();
        self.ends_within(3 * S).await;
        let writes = api.requests_to("PUT", "*/leases/*");
        let freed: Vec<_> = { writes.iter() }
            .filter(|write| write.body["spec"]["holderIdentity"] == "")
            .map(|write| write.body["metadata"]["name"].clone())
            .collect();
        assert_eq!(freed.len(), NAMES.len(), "{freed:?}");
        assert_eq!(freed[NAMES.len() - 1], NAMES[0]);
    }

    /// The API server fails to answer requests for leases in one of several ways.
    fn outage(&self, dice: &mut Dice) {
        let of = *dice.of(&["*/leases*", "*/leases/provisioner", "*/leases/attacher"]);
        let fault = Fault::on("*", of);
        self.api.fault(match dice.below(4) {
            0 => fault.answer(503),
            1 => fault.lose_reply(),
            2 => fault.late_reply(4 * S),
            _ => fault.hang(),
        });
    }

    /// Somebody writes another holder into a lease.
    fn take_away(&self, dice: &mut Dice) {
        let name = format!("ns/{}", dice.of(&NAMES));
        if self.api.object("leases", &name).is_some() {
            self.api.edit("leases", &name, |lease| {
                lease["spec"]["holderIdentity"] = "somebody".into();
            });
        }
    }

    fn happen(&self, dice: &mut Dice) {
        match dice.below(10) {
            0..4 => self.outage(dice),
            4..6 => self.api.clear_faults(),
            6 => self.take_away(dice),
            7 => drop(self.driver.send_replace(false)),
            8 => drop(self.driver.send_replace(true)),
            _ => {
                let seconds = S * u32::try_from(dice.below(30)).unwrap_or_default();
                let conducts = [
                    Conduct::Obeys(seconds),
                    Conduct::Fails(seconds),
                    Conduct::Hangs,
                ];
                self.seen.conduct.set(Some(*dice.of(&conducts)));
            }
        }
    }
}

/// Runs a story; a failing test prints its title.
fn tell<F: Future<Output = ()>>(title: &str, story: F) {
    eprintln!("{title}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, story);
}

#[test]
fn a_103_whatever_happens_it_works_again_and_ends_when_it_is_told_to() {
    for seed in 0..sim::runs(150) {
        tell(&format!("story {seed}"), async {
            let mut dice = Dice::new(seed);
            let story = Story::begin();
            for _ in 0..dice.below(24) {
                story.happen(&mut dice);
                let millis = u64::try_from(dice.below(15_000)).unwrap_or_default();
                story.pass(Duration::from_millis(millis)).await;
            }
            if dice.one_in(2) {
                story.calm();
                story.all_work(CALM).await;
            }
            story.ends_within(GRACE_OF_A_POD).await;
        });
    }
}

#[test]
fn a_103_fifty_outages_in_a_row_cost_no_more_than_one_each() {
    tell("fifty outages", async {
        let story = Story::begin();
        story.all_work(S).await;
        for round in 0..50_u32 {
            // From shorter than what the lease is held for to longer than the lease.
            story.api.fault(Fault::on("*", "*/leases*").hang());
            story.pass(12 * S + TICK * (round % 25)).await;
            story.calm();
            story.all_work(SOON).await;
        }
        story.ends_well().await;
    });
}

/// Covers the moments at which the head's lease and each of the others expire.
#[test]
fn a_103_a_signal_at_any_moment_of_an_outage_ends_it_in_time() {
    for tick in 0..100 {
        // The running work and two unanswered requests; or the whole grace period.
        let quick = (Conduct::Obeys(3 * S), 14 * S);
        for (conduct, limit) in [quick, (Conduct::Hangs, GRACE_OF_A_POD)] {
            tell(&format!("after {tick} ticks, {conduct:?}"), async {
                let story = Story::begin();
                story.seen.conduct.set(Some(conduct));
                story.all_work(S).await;
                story.api.fault(Fault::on("*", "*/leases*").hang());
                story.pass(TICK * tick).await;
                story.ends_within(limit).await;
            });
        }
    }
}

/// The driver disappears at any moment of an outage, and returns when the outage is over.
#[test]
fn a_103_a_driver_that_goes_at_any_moment_of_an_outage() {
    for tick in 0..80 {
        tell(&format!("after {tick} ticks"), async {
            let story = Story::begin();
            story.all_work(S).await;
            story.api.fault(Fault::on("*", "*/leases*").hang());
            story.pass(TICK * tick).await;
            story.driver.send_replace(false);
            story.pass(20 * S).await;
            story.calm();
            story.all_work(CALM).await;
            story.ends_well().await;
        });
    }
}
