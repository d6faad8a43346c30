//! The processes that faults happen to: two replicas of each controller, and the driver. A process
//! that has ended is restarted, as kubelet would.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use csi_test_driver::clock;
use e2e::controller::Controller;
use e2e::link::Link;
use e2e::process::Process;
use rustix::process::Signal;

use crate::schedule::Who;
use crate::stage::Stage;

/// Pause before an ended process is restarted.
const PAUSE: Duration = Duration::from_millis(1000);

/// Flags of all controllers. Leases are short, so that many change hands in one run; back-offs are
/// short, so that unfinished work at the end is not just waiting for its next retry.
const FLAGS: [&str; 9] = [
    "--leader-election=true",
    "--leader-election-lease-duration=8s",
    "--leader-election-renew-deadline=6s",
    "--leader-election-retry-period=1s",
    "--retry-interval-start=500ms",
    "--retry-interval-max=10s",
    "--kube-api-qps=100",
    "--kube-api-burst=200",
    "-v=3",
];

/// One replica.
pub(crate) struct Replica<'s, 'a> {
    controller: &'s Controller<'a>,
    /// The controllers in this process; the lease of the first one decides for all.
    pub(crate) serves: &'static [Who],
    /// The part of its lease identity that is its own.
    pub(crate) identity: String,
    pub(crate) link: Link,
    number: &'static str,
    kubeconfig: PathBuf,
    process: Option<Process>,
    due: Instant,
    /// The harness has killed or terminated it.
    expected: bool,
    /// It is not restarted before this time.
    away: Instant,
    pub(crate) starts: u64,
    /// Number of times it ended without having been killed or terminated.
    pub(crate) ended_itself: u64,
}

impl Replica<'_, '_> {
    /// Its program.
    pub(crate) fn program(&self) -> &'static str {
        self.controller.name()
    }

    /// Its process ID, if it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Sends it a signal; false if it does not run.
    pub(crate) fn signal(&mut self, signal: Signal) -> bool {
        self.expected |= signal == Signal::KILL || signal == Signal::TERM;
        self.process
            .as_ref()
            .is_some_and(|process| process.signal(signal).is_ok())
    }
}

/// All processes of a run.
pub(crate) struct Cast<'s, 'a> {
    stage: &'s Stage<'a>,
    pub(crate) replicas: Vec<Replica<'s, 'a>>,
    driver: Option<Process>,
    driver_due: Instant,
    pub(crate) driver_starts: u64,
}

impl<'s, 'a> Cast<'s, 'a> {
    /// Starts all controllers beside a running driver.
    pub(crate) fn start(stage: &'s Stage<'a>, driver: Process) -> Result<Self> {
        let mut replicas = Vec::new();
        for (serves, controller) in &stage.programs {
            for number in ["0", "1"] {
                let (link, kubeconfig) = stage.link(controller, number)?;
                replicas.push(Replica {
                    controller,
                    serves,
                    identity: format!("{}-{number}", controller.name()),
                    link,
                    number,
                    kubeconfig,
                    process: None,
                    due: Instant::now(),
                    expected: false,
                    away: Instant::now(),
                    starts: 0,
                    ended_itself: 0,
                });
            }
        }
        let mut cast = Self {
            stage,
            replicas,
            driver: Some(driver),
            driver_due: Instant::now(),
            driver_starts: 1,
        };
        cast.keep()?;
        Ok(cast)
    }

    /// Restarts ended processes, after a pause.
    pub(crate) fn keep(&mut self) -> Result<()> {
        let now = Instant::now();
        for replica in &mut self.replicas {
            if let Some(process) = &mut replica.process
                && process.ended()?.is_some()
            {
                replica.process = None;
                replica.due = replica.away.max(now + PAUSE);
                replica.ended_itself += u64::from(!replica.expected);
            }
            if replica.process.is_none() && now >= replica.due {
                let mut flags = FLAGS.to_vec();
                if !replica.serves.contains(&Who::SnapshotController) {
                    flags.push("--timeout=5s");
                }
                if replica.serves.contains(&Who::Provisioner) {
                    flags.push("--extra-create-metadata=true");
                }
                if replica.serves.len() > 1 {
                    flags.push("--controllers=provisioner,attacher,resizer,snapshotter");
                }
                let controller = replica.controller;
                let started =
                    controller.start_with(replica.number, &replica.kubeconfig, &flags, &[]);
                replica.process = Some(started?);
                replica.starts += 1;
                replica.expected = false;
            }
        }
        if let Some(driver) = &mut self.driver
            && driver.ended()?.is_some()
        {
            self.driver = None;
            self.driver_due = self.driver_due.max(now + PAUSE);
        }
        if self.driver.is_none() && now >= self.driver_due {
            self.driver = Some(self.stage.start_driver().context("the driver")?);
            self.driver_starts += 1;
        }
        Ok(())
    }

    /// Kills the driver; it is restarted after `away`.
    pub(crate) fn kill_driver(&mut self, away: Duration) {
        self.driver = None;
        self.driver_due = Instant::now() + away;
    }

    /// Index of the replica with this holder identity, if it runs.
    pub(crate) fn leader(&self, who: Who, holder: &str) -> Option<usize> {
        let leads = |it: &Replica<'_, '_>| {
            it.serves.contains(&who)
                && it.process.is_some()
                && holder.contains(it.identity.as_str())
        };
        self.replicas.iter().position(leads)
    }

    /// Terminates a replica, which stays away until a time. Returns its process ID, if it runs.
    pub(crate) fn send_away(&mut self, index: usize, until: Instant) -> Option<u32> {
        let replica = self.replicas.get_mut(index)?;
        let pid = replica.pid()?;
        replica.away = until;
        replica.signal(Signal::TERM).then_some(pid)
    }

    /// Ends the absence of all replicas.
    pub(crate) fn call_back(&mut self) {
        for replica in &mut self.replicas {
            replica.away = Instant::now();
            replica.due = replica.due.min(replica.away);
        }
    }

    /// Resumes all replicas and restores their connections.
    pub(crate) fn release(&mut self) {
        for replica in &mut self.replicas {
            replica.link.silence(false);
            replica.signal(Signal::CONT);
        }
    }
}

/// Nanoseconds since the epoch, as in the driver's record.
pub(crate) fn now_ns() -> u64 {
    clock::now()
}
