//! Processes and the provisioning journal: requests that are under way, applied late, or lose their answer, and checks
//! of its writes.

use std::sync::Arc;

use super::driver::{ModelDriver, is_same};
use super::mutant::Mutant;
use super::process::{State, Waiting};
use super::run::{World, lost, refused};
use super::server::{Server, refusal};
use super::volume::handle;
use crate::plan::claim::{ClaimReply, ClaimStep};
use crate::plan::journal::{
    Answer, Found, HEADER, INTENT, Intent, Lost, Request, Ticket, Unwritable, Write,
};
use crate::plan::outcome::Refusal;
use crate::plan::reactor::{Reply, Step};
use crate::plan::request::PinnedRequest;
use crate::plan::settings::Protection;
use sidecar_testkit::sim::fate::Fate;

impl Server {
    pub(super) fn found(&self, name: &str) -> Option<Found> {
        let (version, annotations) = self.leases.get(name)?;
        Some(Found {
            uid: format!(
                "{name}-{}",
                self.made.get(name).copied().unwrap_or_default()
            ),
            version: version.to_string(),
            annotations: annotations.clone(),
            ..Found::default()
        })
    }

    /// POST or PUT of a Lease.
    fn write_lease(&mut self, write: &Write) -> Answer {
        if self.refuses_leases {
            return Answer::Failed(refusal(Refusal::Forbidden));
        }
        let held = self.leases.get(&write.name);
        let held = held.map(|(version, _)| version.to_string());
        let refused = match (&write.version, held) {
            (None, Some(_)) => Some(Refusal::AlreadyExists),
            (Some(_), None) => Some(Refusal::NotFound),
            (wanted, held) => (*wanted != held).then_some(Refusal::Conflict),
        };
        if let Some(refused) = refused {
            return Answer::Failed(refusal(refused));
        }
        self.version += 1;
        let all = write.annotations().iter();
        let all = all.map(|held| (held.name().to_owned(), held.text().to_owned()));
        let content = (self.version, all.collect());
        self.leases.insert(write.name.clone(), content);
        let made = self.made.entry(write.name.clone()).or_default();
        *made += u64::from(write.version.is_none());
        Answer::Written {
            version: self.version.to_string(),
            uid: format!("{}-{made}", write.name),
        }
    }

    /// UIDs of the claims whose intents are in a journal.
    pub(super) fn intents(&self) -> impl Iterator<Item = &str> {
        self.intents_of("")
    }

    /// The same for one node's journal, whose Leases have its name.
    pub(super) fn intents_of(&self, node: &str) -> impl Iterator<Item = &str> {
        let leases = self
            .leases
            .iter()
            .filter(move |(lease, _)| lease.contains(node));
        let all = leases.flat_map(|(_, (_, all))| all.keys());
        all.filter_map(|name| name.strip_prefix(INTENT))
    }
}

impl World {
    /// An administrator deletes some Leases of the journal, and gives up their entries only; or Leases cannot be
    /// written for a while.
    pub(super) fn administrate(&mut self) {
        if !self.journals() || !self.faulty() {
            return;
        }
        if self.dice.one_in(3) {
            self.server.refuses_leases = !self.server.refuses_leases;
            return;
        }
        let names: Vec<String> = self.server.leases.keys().cloned().collect();
        for name in names {
            if self.dice.one_in(2) {
                continue;
            }
            let (_, annotations) = self.server.leases.remove(&name).unwrap_or_default();
            for uid in annotations
                .keys()
                .filter_map(|name| name.strip_prefix(INTENT))
            {
                self.excuse(format!("pvc-{uid}"));
            }
        }
    }

    /// Whether the election's lease shows that no other process leads. Some runs have no election.
    pub(super) fn leads(&self) -> bool {
        !self.thawed && self.uids.is_multiple_of(2)
    }

    pub(super) fn journals(&self) -> bool {
        self.case.protection == Protection::Journal
    }

    /// Sends the journal's next request, or answers the one that was sent.
    pub(super) fn advance_journal(&mut self) {
        let lazily = self.dice.one_in(4) || self.settling;
        let process = &mut self.process;
        let Some((request, sent)) = process.asking.take() else {
            // A thawed process sends no request that it had not sent before.
            if !self.thawed {
                let next = process.journal().next(lazily);
                process.asking = next.map(|next| (next, self.clock));
            }
            return;
        };
        let answer = match self.fate() {
            Fate::Applied => self.apply_journal(&request),
            Fate::Unheard => {
                self.apply_journal(&request);
                Answer::Failed(lost())
            }
            Fate::Lost | Fate::Late => Answer::Failed(lost()),
            Fate::Refused => Answer::Failed(refused()),
        };
        let answer = match &request {
            Request::Read(number) => self.mutant.finds(answer, *number, &mut self.process),
            Request::Write(_) => answer,
        };
        let process = &mut self.process;
        let answer = self.mutant.reads_journal(answer, process);
        if let Request::Write(write) = &request {
            let mut all = write.annotations().iter();
            let header = all.find(|held| held.name() == HEADER);
            process.header = header.map(|held| held.text().to_owned());
        }
        match process.journal().answered(&request, answer, sent) {
            Ok(_) => self.recover(),
            Err(Lost::Fenced(..)) => process.fenced = true,
            Err(other) => self.complain(other.to_string()),
        }
    }

    /// Records the request in the journal before the driver gets it.
    pub(super) fn intend(&mut self, index: usize, prepared: Arc<PinnedRequest>, intent: Intent) {
        let intended = self.process.journal().intend(intent.clone(), self.clock);
        match intended {
            Ok(_) if self.mutant == Mutant::CallsEarly => self.intended(index, prepared, Ok(())),
            Ok(ticket) => {
                let step = Step::Claim(ClaimStep::Intend(prepared, intent));
                let state = State::Waiting(step, Waiting::Journal(ticket));
                self.process.attempts.enter(index, state);
            }
            Err(error) => self.intended(index, prepared, Err(error)),
        }
    }

    fn intended(
        &mut self,
        index: usize,
        prepared: Arc<PinnedRequest>,
        result: Result<(), Unwritable>,
    ) {
        let reply = Reply::Claim(ClaimReply::Intended(prepared, result));
        self.process
            .attempts
            .enter(index, State::Answered(reply, None));
    }

    /// The call waits until its intent is in the journal.
    pub(super) fn await_journal(
        &mut self,
        index: usize,
        (prepared, intent): (Arc<PinnedRequest>, Intent),
        ticket: Ticket,
    ) {
        let clock = self.clock;
        let leads = self.leads();
        match self.process.journal().state(ticket, clock, leads) {
            Some(result) => self.intended(index, prepared, result),
            None => {
                let step = Step::Claim(ClaimStep::Intend(prepared, intent));
                let state = State::Waiting(step, Waiting::Journal(ticket));
                self.process.attempts.enter(index, state);
            }
        }
        self.advance_journal();
    }

    fn apply_journal(&mut self, request: &Request) -> Answer {
        match request {
            Request::Read(number) => {
                let name = self.process.journal().name(*number);
                Answer::Found(self.server.found(&name))
            }
            Request::Write(write) => self.write_journal(write),
        }
    }

    /// A process that stops removes its settled entries.
    pub(super) fn flush_journal(&mut self) {
        for _ in 0..20 {
            let Some(request) = self.process.journal().next(true) else {
                return;
            };
            let answer = self.apply_journal(&request);
            let sent = self.clock;
            self.process.journal().answered(&request, answer, sent).ok();
        }
    }

    pub(super) fn write_journal(&mut self, write: &Write) -> Answer {
        let before: Vec<String> = self.server.intents().map(str::to_owned).collect();
        let answer = self.server.write_lease(write);
        for uid in before {
            let name = format!("pvc-{uid}");
            let stays = self.server.intents().any(|held| held == uid);
            if !stays && self.may_be_lost(&name) {
                self.complain(format!("{name} forgotten while it may be made"));
            }
        }
        answer
    }

    /// Whether a volume of this name exists without a PersistentVolume, or may exist later.
    fn may_be_lost(&self, name: &str) -> bool {
        if self.excused.contains(name) {
            return false;
        }
        let volumes = || self.server.volumes.values().map(|(_, volume)| volume);
        let says =
            |id: &str| volumes().any(|volume| handle(volume).is_some_and(|held| is_same(held, id)));
        let saved = self.server.volumes.contains_key(name);
        let lost = |driver: &ModelDriver| {
            !saved && driver.makes(name) || driver.named(name).any(|id| !says(id))
        };
        self.drivers().any(lost)
    }

    /// The process continues the calls of earlier ones, once everything is listed.
    pub(super) fn recover(&mut self) {
        let clock = self.clock;
        let early = self.mutant == Mutant::RecoversEarly;
        let process = &mut self.process;
        let listed = process.filling.is_empty() || early;
        if listed && process.is_open() {
            process.recover(clock);
        }
    }
}
