//! A leader that is stopped in the middle of its work, and continues when another leads.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

use crate::process::{signal_to, until};
use crate::{FakeApi, FakeDriver};

/// The requests to API server and driver after this point.
#[derive(Debug)]
pub struct Later<'a> {
    api: &'a FakeApi,
    driver: &'a FakeDriver,
    calls: usize,
}

/// Stops `leader`, a process id, while it is busy; gives `lease` (`NAMESPACE/NAME`) to another
/// holder; and continues `leader` after `over`, which must be longer than its lease lasts.
///
/// # Panics
///
/// If there is no such process.
pub async fn succeed_while_stopped<'a>(
    api: &'a FakeApi,
    driver: &'a FakeDriver,
    leader: u32,
    lease: &str,
    over: Duration,
) -> Later<'a> {
    stop_at_work(leader).await;
    api.edit("leases", lease, |lease| {
        lease["spec"]["holderIdentity"] = json!("another");
        lease["spec"]["leaseTransitions"] = json!(1);
        lease["spec"]["renewTime"] = json!("2020-01-01T00:00:00.000000Z");
    });
    // Requests that it sent before arrive meanwhile.
    sleep(over).await;
    api.clear_requests();
    let calls = driver.calls().last().map_or(0, |call| call.number + 1);
    signal_to(leader, Signal::CONT);
    Later { api, driver, calls }
}

impl Later<'_> {
    /// Writes, except those to leases, and calls.
    #[must_use]
    pub fn effects(&self) -> Vec<String> {
        let writes = self.api.writes().into_iter();
        let writes = writes.filter(|request| !request.path.contains("/leases/"));
        let calls = self.driver.calls().into_iter();
        let calls = calls.filter(|call| call.number >= self.calls);
        writes
            .map(|request| format!("{} {}", request.method, request.path))
            .chain(calls.map(|call| format!("{call:?}")))
            .collect()
    }
}

/// Stops a process while its only thread runs and has further work.
async fn stop_at_work(id: u32) {
    // Often enough to catch it at work, and not for ever on a system that does not show system
    // calls.
    for _ in 0..1000 {
        signal_to(id, Signal::STOP);
        until("the process to stop", async || {
            let stat =
                fs::read_to_string(format!("/proc/{id}/stat")).expect("the process is there");
            stat.rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T'))
        })
        .await;
        let call = fs::read_to_string(format!("/proc/{id}/syscall")).unwrap_or_default();
        let number = call.split(' ').next().unwrap_or_default();
        // epoll_wait and epoll_pwait, of x86-64 and of arm64.
        if !["232", "281", "22"].contains(&number) {
            return;
        }
        signal_to(id, Signal::CONT);
        sleep(Duration::from_millis(2)).await;
    }
}
