//! Tracks whether a server that work depends on answers.
//!
//! Callers report the result of each request; queues that back off because of an outage learn of its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// One lost response is no outage: keys that failed with it keep their back-off.
const LEAST: Duration = Duration::from_secs(1);

/// The state of one server; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Outage {
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    /// Why the last request got no response, if it did not.
    reason: Option<Arc<str>>,
    ended: u64,
    /// The problem that somebody must fix before the server can answer.
    problem: Option<Arc<str>>,
    /// Kinds that must be listed before any work starts, and why the server refuses to list them.
    refused: BTreeMap<&'static str, String>,
    /// The last problem that was logged.
    told: Option<Arc<str>>,
}

impl Outage {
    /// Records that a request got no response.
    pub fn unanswered(&self, reason: &str) {
        self.state.send_if_modified(|state| {
            let news = state.since.is_none();
            state.since = state.since.or_else(|| Some(Instant::now()));
            if state.reason.as_deref() != Some(reason) {
                state.reason = Some(reason.into());
            }
            news
        });
    }

    /// Records that the server cannot answer before somebody fixes `problem`. Returns whether to log it: not while
    /// it comes and goes, as behind several servers of which one has it.
    pub fn needs_mending(&self, problem: &str) -> bool {
        let mut news = false;
        self.state.send_if_modified(|state| {
            let problem: Arc<str> = problem.into();
            news = state.told.as_ref() != Some(&problem);
            state.told = Some(problem.clone());
            state.problem = Some(problem);
            false
        });
        news
    }

    /// Records that the server refuses to list these objects, without which no work starts.
    pub fn refuses(&self, kind: &'static str, reason: &str) {
        self.state.send_if_modified(|state| {
            let reason = format!("{kind} cannot be listed: {reason}");
            state.refused.insert(kind, reason);
            false
        });
    }

    /// Records that these objects are listed, or no longer needed.
    pub fn lists(&self, kind: &'static str) {
        self.state.send_if_modified(|state| {
            state.refused.remove(kind);
            false
        });
    }

    /// The problems that keep work from starting, one per line; `None` once there was any response and no needed
    /// list is refused.
    pub fn problem(&self) -> Option<Arc<str>> {
        let state = self.state.borrow();
        let lasts = state.since.is_some_and(|since| since.elapsed() >= LEAST);
        let silent = { state.reason.as_deref() }
            .filter(|_| lasts && state.problem.is_none())
            .map(|reason| format!("the API server does not answer: {reason}"));
        let refused = state.refused.values().map(String::as_str);
        let lines: Vec<&str> = { state.problem.as_deref().into_iter() }
            .chain(silent.as_deref())
            .chain(refused)
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n").into())
    }

    /// Records that there was a response.
    pub fn answered(&self) {
        let has_news = {
            let state = self.state.borrow();
            state.problem.is_some() || state.reason.is_some()
        };
        if has_news {
            self.state.send_if_modified(|state| {
                state.problem = None;
                state.reason = None;
                false
            });
        }
    }

    /// Records that a request succeeded. Returns whether that ended an outage.
    pub fn served(&self) -> bool {
        if !self.is_on() {
            return false;
        }
        let mut over = false;
        self.state.send_modify(|state| {
            over = state
                .since
                .take()
                .is_some_and(|since| since.elapsed() >= LEAST);
            state.ended += u64::from(over);
            state.told.take_if(|_| over);
        });
        over
    }

    /// Whether the last request got no response.
    pub fn is_on(&self) -> bool {
        self.state.borrow().since.is_some()
    }

    /// Number of outages that have ended.
    pub fn ended(&self) -> u64 {
        self.state.borrow().ended
    }

    /// Waits until a request gets no response.
    pub async fn begins(&self) {
        let mut state = self.state.subscribe();
        // Cannot fail: the sender lives in `self`.
        let _on = state.wait_for(|state| state.since.is_some()).await;
    }

    /// Waits until more than `ended` outages have ended.
    pub async fn ends(&self, ended: u64) {
        let mut state = self.state.subscribe();
        let _over = state.wait_for(|state| state.ended > ended).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_needs_mending_is_news_once_until_an_outage_has_ended() {
        let outage = Outage::default();
        assert_eq!(outage.problem(), None);
        outage.unanswered("refused");
        assert!(outage.needs_mending("expired"));
        assert!(!outage.needs_mending("expired"));
        assert_eq!(outage.problem().as_deref(), Some("expired"));
        outage.answered();
        assert_eq!(outage.problem(), None);
        assert!(!outage.served(), "too short");
        assert!(!outage.needs_mending("expired"), "it comes and goes");
        assert!(outage.needs_mending("another"));
        outage.unanswered("refused");
        advance(LEAST).await;
        outage.answered();
        assert!(outage.served());
        assert!(outage.needs_mending("another"));
    }

    #[test]
    fn what_is_refused_is_a_problem_until_it_is_listed() {
        let outage = Outage::default();
        outage.needs_mending("expired");
        outage.refuses("pods", "403");
        outage.refuses("nodes", "404");
        outage.refuses("nodes", "403");
        let all = "expired\nnodes cannot be listed: 403\npods cannot be listed: 403";
        assert_eq!(outage.problem().as_deref(), Some(all));
        outage.answered();
        outage.lists("pods");
        assert_eq!(
            outage.problem().as_deref(),
            Some("nodes cannot be listed: 403")
        );
        outage.lists("nodes");
        assert_eq!(outage.problem(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_a_problem_until_it_does() {
        let outage = Outage::default();
        outage.unanswered("refused");
        assert_eq!(outage.problem(), None, "one lost answer");
        advance(LEAST).await;
        let silent = "the API server does not answer: refused";
        assert_eq!(outage.problem().as_deref(), Some(silent));
        outage.unanswered("reset");
        let silent = "the API server does not answer: reset";
        assert_eq!(outage.problem().as_deref(), Some(silent));
        outage.needs_mending("expired");
        assert_eq!(outage.problem().as_deref(), Some("expired"));
        outage.answered();
        assert_eq!(outage.problem(), None, "be it with a refusal");
        assert!(outage.served());
        assert_eq!(outage.problem(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_with_the_first_answer_and_one_lost_answer_is_none() {
        let outage = Outage::default();
        assert!(!outage.served() && !outage.is_on());
        outage.unanswered("refused");
        advance(LEAST / 2).await;
        outage.unanswered("refused");
        assert!(outage.is_on());
        assert!(!outage.served(), "too short");
        assert!(!outage.is_on() && outage.ended() == 0);
        outage.unanswered("refused");
        outage.begins().await;
        advance(LEAST).await;
        outage.unanswered("refused");
        assert!(timeout(LEAST, outage.ends(0)).await.is_err());
        assert!(outage.clone().served());
        outage.ends(0).await;
        assert!(!outage.served() && outage.ended() == 1);
    }
}
