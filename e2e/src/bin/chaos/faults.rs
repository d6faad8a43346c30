//! Injects faults, and ends them.

mod administrator;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use csi_test_driver::control::client::Client;
use e2e::process;
use e2e::proxy::FaultProxy;
use e2e::suite::say;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::acts::ledger::Ledger;
use crate::cast::{Cast, now_ns};
use crate::leases::Leases;
use crate::schedule::{Fault, Kind, Who};
use crate::stage::Stage;
use crate::stale::Silenced;

use administrator::{Administrators, Job};

/// Time that a fault waits for a target.
const TARGET_WAIT: Duration = Duration::from_secs(15);

/// An action that is due later: the end of a fault, or another attempt at one.
#[derive(Debug)]
enum Later {
    Thaw { replica: usize, pid: u32 },
    Reconnect { replica: usize },
    Unrule(String),
    Again { kind: Kind, until: Instant },
}

/// The faults of a run.
pub(crate) struct Faults<'s, 'a> {
    stage: &'s Stage<'a>,
    leases: &'s Leases,
    proxy: FaultProxy,
    driver: Client,
    began: Instant,
    /// The faults that have not started, by time.
    ahead: std::vec::IntoIter<Fault>,
    next: Option<Fault>,
    later: Vec<(Instant, Later)>,
    api_server: Option<JoinHandle<Result<()>>>,
    administrators: Administrators,
    rules: u64,
    /// Leaders that could not renew their leases.
    pub(crate) silenced: Vec<Silenced>,
    /// Number of faults by kind.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Number of faults without a target.
    pub(crate) missed: u64,
}

impl<'s, 'a> Faults<'s, 'a> {
    /// No fault has started.
    pub(crate) fn new(
        stage: &'s Stage<'a>,
        leases: &'s Leases,
        faults: &[Fault],
        began: Instant,
        ledger: &Arc<Ledger>,
    ) -> Result<Self> {
        let mut ahead = Vec::from(faults).into_iter();
        Ok(Self {
            stage,
            leases,
            proxy: FaultProxy::of(stage.cluster)?,
            driver: stage.deployment.controller.control(),
            began,
            next: ahead.next(),
            ahead,
            later: Vec::new(),
            api_server: None,
            administrators: Administrators::new(Arc::clone(ledger)),
            rules: 0,
            silenced: Vec::new(),
            counts: BTreeMap::new(),
            missed: 0,
        })
    }

    /// Performs everything that is due.
    pub(crate) fn proceed(&mut self, cast: &mut Cast<'_, '_>) -> Result<()> {
        let done = self.administrators.finished()?;
        self.count(done);
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.later)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.later = later;
        let due: Vec<(Instant, Later)> = due;
        for (_, what) in due {
            self.resume(cast, what)?;
        }
        while let Some(fault) = self.next.take() {
            if self.began + Duration::from_millis(fault.at_ms) > now {
                self.next = Some(fault);
                break;
            }
            self.next = self.ahead.next();
            self.happen(cast, fault.kind, now + TARGET_WAIT)?;
        }
        Ok(())
    }

    /// The result of an administrator's fault is known only when the administrator has finished.
    fn count(&mut self, done: Vec<(Kind, bool)>) {
        for (kind, _) in done.into_iter().filter(|(_, could)| !could) {
            if let Some(count) = self.counts.get_mut(kind.name()) {
                *count -= 1;
            }
            self.missed += 1;
            say(&format!("{}  could not be done: {kind}", self.clock()));
        }
        self.counts.retain(|_, count| *count > 0);
    }

    fn resume(&mut self, cast: &mut Cast<'_, '_>, what: Later) -> Result<()> {
        match what {
            Later::Thaw { replica, pid } => {
                if let Some(it) = cast.replicas.get_mut(replica)
                    && it.pid() == Some(pid)
                {
                    self.silenced.extend(it.serves.first().map(|of| Silenced {
                        of: *of,
                        replica: it.identity.clone(),
                        pid,
                        since_ns: now_ns(),
                    }));
                    it.signal(Signal::CONT);
                }
            }
            Later::Reconnect { replica } => {
                if let Some(it) = cast.replicas.get(replica) {
                    it.link.silence(false);
                }
            }
            // A driver that was restarted since has no rules.
            Later::Unrule(id) => drop(self.driver.remove_rule(&id)),
            Later::Again { kind, until } => self.happen(cast, kind, until)?,
        }
        Ok(())
    }

    /// Injects a fault, or postpones it if it has no target.
    fn happen(&mut self, cast: &mut Cast<'_, '_>, kind: Kind, until: Instant) -> Result<()> {
        if self.try_once(cast, &kind)? {
            *self.counts.entry(kind.name()).or_default() += 1;
            say(&format!("{}  {kind}", self.clock()));
        } else if Instant::now() < until {
            let soon = Instant::now() + Duration::from_millis(500);
            self.later.push((soon, Later::Again { kind, until }));
        } else {
            self.missed += 1;
            say(&format!("{}  missed: {kind}", self.clock()));
        }
        Ok(())
    }

    /// Minutes and seconds since the start.
    pub(crate) fn clock(&self) -> String {
        let seconds = self.began.elapsed().as_secs();
        format!("  {:2}:{:02}", seconds / 60, seconds % 60)
    }

    fn try_once(&mut self, cast: &mut Cast<'_, '_>, kind: &Kind) -> Result<bool> {
        Ok(match kind {
            Kind::KillLeader { of } => self.signal(cast, *of, Signal::KILL),
            Kind::TerminateLeader { of } => self.signal(cast, *of, Signal::TERM),
            Kind::KillBoth { of } => {
                let both = cast.replicas.iter_mut().filter(|it| it.serves.contains(of));
                both.map(|it| it.signal(Signal::KILL)).fold(false, |any, one| any | one)
            }
            Kind::FreezeLeader { of, ms } => self.freeze(cast, *of, *ms),
            Kind::BlackHoleLeader { of, ms } => self.black_hole(cast, *of, *ms),
            Kind::LoseReplies { of, times } => self.proxy_rule(
                *of,
                json!({ "action": "lose-reply", "method": "^(POST|PUT|PATCH|DELETE)$", "count": times }),
            )?,
            Kind::RefuseRequests { of, code, times } => {
                let action = json!({ "action": "status", "code": code, "count": times });
                self.proxy_rule(*of, action)?
            }
            Kind::CutWatches { gone } => self.cut_watches(cast, *gone)?,
            Kind::KillApiServer { ms } => self.api_server(["kill", "start"], *ms)?,
            Kind::PauseApiServer { ms } => self.api_server(["pause", "resume"], *ms)?,
            Kind::KillDriver { ms } => {
                cast.kill_driver(Duration::from_millis(*ms));
                true
            }
            Kind::DisconnectDriver => self.driver.socket("disconnect").is_ok(),
            Kind::LoseAnswers { method, times } => {
                self.driver_rule(method, *times, json!({ "at": "after", "outcome": "disconnect" }))
            }
            Kind::Hang { method, times } => {
                self.driver_rule(method, *times, json!({ "at": "after", "outcome": "hang" }))
            }
            Kind::Doubt { method, code, times } => {
                self.driver_rule(method, *times, json!({ "at": "after", "outcome": fail(code) }))
            }
            Kind::Refuse { method, code, times } => {
                self.driver_rule(method, *times, json!({ "at": "before", "outcome": fail(code) }))
            }
            Kind::CrashAfter { method } => {
                self.driver_rule(method, 1, json!({ "at": "after", "outcome": "crash" }))
            }
            Kind::Slow { mean_ms, ms } => self.slow(*mean_ms, *ms),
            &Kind::Reject { what, by, ms } => {
                self.administer(kind, Job::Reject { what, by, ms })?
            }
            &Kind::DeleteElection { of, quota_ms } => {
                self.administer(kind, Job::DeleteElection { of, quota_ms })?
            }
            &Kind::DeleteJournal { quota_ms } => {
                self.administer(kind, Job::DeleteJournal { quota_ms })?
            }
        })
    }

    fn administer(&mut self, kind: &Kind, job: Job) -> Result<bool> {
        self.administrators.begin(self.stage, kind, job)
    }

    fn leader(&self, cast: &Cast<'_, '_>, of: Who) -> Option<usize> {
        cast.leader(of, &self.leases.holder(of)?)
    }

    fn signal(&self, cast: &mut Cast<'_, '_>, of: Who, signal: Signal) -> bool {
        let leader = self.leader(cast, of);
        let leader = leader.and_then(|index| cast.replicas.get_mut(index));
        leader.is_some_and(|leader| leader.signal(signal))
    }

    fn freeze(&mut self, cast: &mut Cast<'_, '_>, of: Who, ms: u64) -> bool {
        let Some(index) = self.leader(cast, of) else {
            return false;
        };
        let frozen = cast.replicas.get_mut(index);
        let pid = frozen.and_then(|it| it.signal(Signal::STOP).then(|| it.pid())?);
        let Some(pid) = pid else { return false };
        let thaw = Later::Thaw {
            replica: index,
            pid,
        };
        self.after(ms, thaw);
        true
    }

    fn black_hole(&mut self, cast: &mut Cast<'_, '_>, of: Who, ms: u64) -> bool {
        let Some(index) = self.leader(cast, of) else {
            return false;
        };
        let Some((it, pid)) = cast
            .replicas
            .get(index)
            .and_then(|it| Some((it, it.pid()?)))
        else {
            return false;
        };
        it.link.silence(true);
        self.silenced.push(Silenced {
            of: it.serves.first().copied().unwrap_or(of),
            replica: it.identity.clone(),
            pid,
            since_ns: now_ns(),
        });
        self.after(ms, Later::Reconnect { replica: index });
        true
    }

    fn after(&mut self, ms: u64, what: Later) {
        let at = Instant::now() + Duration::from_millis(ms);
        self.later.push((at, what));
    }

    fn proxy_rule(&self, of: Who, mut rule: Value) -> Result<bool> {
        if let Some(rule) = rule.as_object_mut() {
            rule.insert("userAgent".to_owned(), json!(format!("^{}", of.program())));
        }
        self.proxy.add(&rule).map(|()| true)
    }

    fn cut_watches(&self, cast: &Cast<'_, '_>, gone: bool) -> Result<bool> {
        if gone {
            let rule = json!({
                "uri": "[?&]watch=(true|1)", "action": "gone", "afterMs": 500, "count": 8,
            });
            self.proxy.add(&rule)?;
        }
        for replica in &cast.replicas {
            replica.link.cut();
        }
        Ok(true)
    }

    /// Runs two verbs of the cluster with a pause in between; false while the previous ones are running.
    fn api_server(&mut self, verbs: [&'static str; 2], ms: u64) -> Result<bool> {
        if { self.api_server.as_ref() }.is_some_and(|it| !it.is_finished()) {
            return Ok(false);
        }
        self.join_api_server()?;
        let [mut down, mut up] = verbs.map(|verb| self.component(verb, "kube-apiserver"));
        // kube-controller-manager would retry a failed watch only after up to a minute, and nothing would happen
        // meanwhile.
        let mut manager = self.component("restart", "kube-controller-manager");
        self.api_server = Some(thread::spawn(move || {
            process::output(&mut down)?;
            thread::sleep(Duration::from_millis(ms));
            process::output(&mut up)?;
            process::output(&mut manager).map(drop)
        }));
        Ok(true)
    }

    fn component(&self, verb: &str, name: &str) -> Command {
        self.stage.cluster.command(&["ctl", verb, name])
    }

    fn join_api_server(&mut self) -> Result<()> {
        match self.api_server.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(anyhow!("the thread of the API server panicked")),
            Some(Ok(done)) => done,
            None => Ok(()),
        }
    }

    fn driver_rule(&mut self, method: &str, times: u64, action: Value) -> bool {
        let matches = json!({ "method": method, "times": times });
        self.rule(&matches, &action).is_some()
    }

    fn slow(&mut self, mean_ms: u64, ms: u64) -> bool {
        let delay = json!({ "delay": { "mean_ms": mean_ms, "cap_ms": 5 * mean_ms } });
        let id = self.rule(&json!({}), &delay);
        let added = id.is_some();
        if let Some(id) = id {
            self.after(ms, Later::Unrule(id));
        }
        added
    }

    /// Adds a rule to the driver, if it runs.
    fn rule(&mut self, matches: &Value, action: &Value) -> Option<String> {
        self.rules += 1;
        let id = format!("chaos-{}", self.rules);
        let rule = json!({ "id": id, "match": matches, "action": action });
        let rule = serde_json::from_value(rule).ok()?;
        self.driver.add_rule(&rule).ok()
    }

    /// Ends all faults.
    pub(crate) fn end(&mut self, cast: &mut Cast<'_, '_>) -> Result<()> {
        self.next = None;
        for (_, what) in std::mem::take(&mut self.later) {
            if !matches!(what, Later::Again { .. }) {
                self.resume(cast, what)?;
            }
        }
        cast.release();
        self.proxy.replace(&[])?;
        // A driver that was restarted since has no rules.
        let _ = self.driver.clear_rules();
        self.join_api_server()?;
        self.stage.until_served()?;
        let done = self.administrators.end()?;
        self.count(done);
        Ok(())
    }
}

fn fail(code: &str) -> Value {
    json!({ "fail": { "code": code, "message": "so says the schedule" } })
}
