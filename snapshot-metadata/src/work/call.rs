//! One call of a client, from its first byte to its status.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use h2::RecvStream;
use prometheus::IntGauge;
use sidecar::csi::Deadline;
use sidecar::secure::certificates::Certificates;
use sidecar::secure::concurrency::{Busy, ConcurrencyLimit, Permit};
use sidecar::shutdown::Requested;
use sidecar::text::truncated;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::client::Reviews;
use super::connection::{Authenticated, Connection};
use super::driver::{Blocks, Driver};
use super::grpc::{self, Answer, Gone};
use super::metrics::Metrics;
use super::objects::Objects;
use crate::plan::ranges::{Fault, Stream};
use crate::plan::refusal::{Reason, Refusal};
use crate::plan::request::Request;
use crate::plan::resolve;

/// How long a call waits for a free stream.
const STREAM_WAIT: Duration = Duration::from_secs(1);
/// A driver may end its stream without error at the deadline, and its clock may differ from ours. An end this
/// shortly before the deadline counts as DEADLINE_EXCEEDED, so that the client asks again instead of taking the
/// list for complete.
const DOUBT: Duration = Duration::from_millis(50);

const NOT_FOR_ADDRESS: &str = "The server's certificate is not for the address of the SnapshotMetadataService: \
                               clients will refuse it";

/// Answers calls.
#[derive(Debug)]
pub struct Service {
    /// The driver.
    pub driver: Arc<Driver>,
    /// Requests to the API server.
    pub objects: Objects,
    /// Authenticates and authorizes clients.
    pub reviews: Reviews,
    /// Limits concurrent streams from the driver, per user.
    pub streams: ConcurrencyLimit<String>,
    /// `--max-streaming-duration-min`
    pub longest: Duration,
    /// The server's certificate.
    pub certificates: Arc<Certificates>,
    /// The metrics.
    pub metrics: Metrics,
    /// This process is terminating: new calls are refused.
    pub ending: watch::Receiver<bool>,
    /// The grace period is over: running calls are ended.
    pub over: Requested,
    /// Number of calls so far.
    pub count: AtomicU64,
}

/// The request and what the client may see, for log and metrics.
struct Seen {
    request: Request,
    /// The client may see the snapshot, and the snapshot exists.
    is_known: bool,
}

impl Service {
    /// Answers one call.
    pub async fn serve<M>(
        &self,
        connection: &Arc<Connection>,
        given: Option<Duration>,
        body: RecvStream,
        answer: Answer,
    ) where
        M: prost::Message + Default + Into<Request>,
    {
        let began = Instant::now();
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let limit = given.map_or(self.longest, |given| given.min(self.longest));
        let mut answer = answer;
        let mut seen = None;
        let outcome = {
            let deadline = Deadline::after(limit);
            let serving = self.answer::<M>(connection, deadline, (body, &mut answer), &mut seen);
            tokio::select! {
                biased;
                () = self.over.requested() => Err(Refusal::ending()),
                () = sleep(limit) => Err(Refusal::too_late()),
                outcome = Box::pin(serving) => outcome,
            }
        };
        let status = match &outcome {
            Ok(()) => Status::new(Code::Ok, ""),
            Err(refusal) => Status::new(refusal.code, refusal.text.clone()),
        };
        answer.end(&status);
        if let Err(refusal) = &outcome {
            self.metrics.refused(refusal.reason);
        }
        if let Some(seen) = seen {
            let code = status.code();
            self.metrics
                .call(&seen.request, seen.is_known, code, began.elapsed());
            report(number, &seen.request, &outcome, began.elapsed());
        }
    }

    async fn answer<M>(
        &self,
        connection: &Arc<Connection>,
        deadline: Deadline,
        (mut body, answer): (RecvStream, &mut Answer),
        seen: &mut Option<Seen>,
    ) -> Result<(), Refusal>
    where
        M: prost::Message + Default + Into<Request>,
    {
        let request = answer.unless_gone(grpc::request::<M>(&mut body)).await;
        let request = request
            .map_err(cancelled)?
            .map_err(|status| Refusal::new(Reason::Invalid, status.code(), status.message()))?;
        let seen = seen.insert(Seen {
            request: request.into(),
            is_known: false,
        });
        let preparing = Box::pin(self.prepare(seen, connection, deadline));
        let (mut blocks, _held) = answer.unless_gone(preparing).await.map_err(cancelled)??;
        let _counted = Counted::new(&self.metrics.streams);
        Box::pin(self.pass_on(&seen.request, &mut blocks, answer)).await?;
        if deadline.remaining() <= DOUBT {
            return Err(Refusal::too_late());
        }
        Ok(())
    }

    /// Does everything up to the driver's first answer.
    async fn prepare(
        &self,
        seen: &mut Seen,
        connection: &Arc<Connection>,
        deadline: Deadline,
    ) -> Result<(Blocks, (Authenticated, Permit)), Refusal> {
        let request = &seen.request;
        request.validate()?;
        if *self.ending.borrow() {
            return Err(Refusal::ending());
        }
        let (token, namespace, name) = (&request.token, &request.namespace, &request.snapshot);
        let admitting = self.reviews.admit(token, namespace, connection.peer);
        let client = admitting.await?;
        let authenticated = connection.authenticated();
        if let Some(address) = &client.address {
            self.certificates.compare(address, NOT_FOR_ADDRESS);
        }
        request.validate_numbers()?;
        if !self.driver.is_ready() {
            return Err(Refusal::not_ready());
        }
        // Before the objects are read: a thousand calls at once must not become three thousand requests to the
        // API server.
        let permit = self.streams.enter(&client.user.username, STREAM_WAIT).await;
        let permit = permit.map_err(|Busy| Refusal::busy())?;
        let snapshot = self.objects.snapshot(namespace, name).await?;
        let bound = resolve::content_of(&snapshot, name)?;
        let content = self.objects.content(bound).await?;
        let driver = self.driver.name();
        let handle = resolve::handle_of(&content, bound, name, driver)?;
        // Not earlier: a client may name any number of snapshots that do not exist, and each would be a series.
        seen.is_known = true;
        let class = match &snapshot.class {
            Some(class) => self.objects.class(class).await?,
            None => resolve::default_class(self.objects.classes().await?, driver)?,
        };
        let of = (namespace.as_str(), name.as_str());
        let secrets = match resolve::secret(class.as_ref(), &content, of, bound)? {
            Some(secret) => self.objects.secret(&secret).await?,
            None => std::collections::BTreeMap::new(),
        };
        let asking = self.driver.stream(request, handle, secrets, deadline);
        Ok((Box::pin(asking).await?, (authenticated, permit)))
    }

    /// Passes the driver's ranges on. Reads the driver's next message only after the client has taken this one.
    async fn pass_on(
        &self,
        request: &Request,
        blocks: &mut Blocks,
        answer: &mut Answer,
    ) -> Result<(), Refusal> {
        let mut stream = Stream::new(request.offset, request.most);
        let unusable =
            |fault: Fault| Refusal::new(Reason::Ranges, Code::Internal, fault.to_string());
        loop {
            let next = answer.unless_gone(blocks.next()).await.map_err(cancelled)?;
            let Some(message) = next? else { return Ok(()) };
            let mut message = stream.begin(message).map_err(unusable)?;
            while let Some(piece) = stream.cut(&mut message).map_err(unusable)? {
                let sent = answer.send(&piece.head, &piece.ranges).await;
                sent.map_err(cancelled)?;
                self.metrics.messages.inc();
                self.metrics.ranges.inc_by(piece.count);
            }
        }
    }
}

/// Counts a stream in the gauge while it runs.
struct Counted<'a>(&'a IntGauge);

impl<'a> Counted<'a> {
    fn new(streams: &'a IntGauge) -> Self {
        streams.inc();
        Self(streams)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn cancelled(_: Gone) -> Refusal {
    Refusal::new(Reason::Cancelled, Code::Cancelled, "context canceled")
}

/// Shortens a client's text for the log: even a caller without a valid token chooses it.
fn cut(text: &str) -> &str {
    const LONGEST: usize = 256;
    truncated(text, LONGEST)
}

/// Logs one line for each failed call. The line contains neither token nor Secret.
fn report(number: u64, request: &Request, outcome: &Result<(), Refusal>, took: Duration) {
    let op = format!("Get{}-{number}", request.method());
    let (namespace, snapshot) = (cut(&request.namespace), cut(&request.snapshot));
    let base = cut(request.base.as_deref().unwrap_or_default());
    let (offset, most) = (request.offset, request.most);
    let seconds = took.as_secs_f32();
    match outcome {
        Ok(()) => sidecar::verbose!(
            4,
            op,
            namespace,
            snapshot,
            base,
            offset,
            most,
            seconds,
            "Call served"
        ),
        Err(refusal) => {
            let code = sidecar::rpc_code::name(refusal.code);
            let err = refusal.to_string();
            tracing::error!(
                op,
                namespace,
                snapshot,
                base,
                offset,
                most,
                code,
                err,
                "Call failed"
            );
        }
    }
}
