//! The connection to the driver, which survives the driver's restarts, and the driver's streams.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use csi_proto::csi::plugin_capability::service::Type;
use csi_proto::csi::{self, methods};
use http::uri::PathAndQuery;
use prost::Message;
use sidecar::csi::Deadline;
use sidecar::csi::connection::{self, Address, Connection, OnLoss, Options};
use sidecar::csi::identity::{self, IdentityError};
use sidecar::csi::loss::{back_at_once, until_answered};
use sidecar::csi::observe::Observer;
use sidecar::error::Chain;
use sidecar::flags::Exit;
use sidecar::metrics::CsiOperations;
use tokio::sync::watch;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status, Streaming};

use crate::plan::refusal::{LONGEST_OF_DRIVER, Refusal, of_driver};
use crate::plan::request;

const ALLOCATED: PathAndQuery =
    PathAndQuery::from_static("/csi.v1.SnapshotMetadata/GetMetadataAllocated");
const DELTA: PathAndQuery = PathAndQuery::from_static("/csi.v1.SnapshotMetadata/GetMetadataDelta");

/// Flow-control window: unread bytes that a stream holds here.
const WINDOW: u32 = 65_535;

/// The driver behind its socket.
#[derive(Debug)]
pub struct Driver {
    connection: Connection,
    address: Address,
    timeout: Duration,
    name: String,
    /// The driver is ready, and so is this program.
    ready: watch::Sender<bool>,
}

impl Driver {
    /// Connects and asks the driver's name. From [`keep`](Self::keep) on, `ready` shows whether the driver is
    /// ready.
    ///
    /// # Errors
    /// Exit code 1: the driver does not answer within 30 s, or has no name.
    pub async fn meet(
        (address, timeout): (Address, Duration),
        operations: &CsiOperations,
        ready: watch::Sender<bool>,
    ) -> Result<Self, Exit> {
        let observer = Observer {
            methods: &[methods::IDENTITY],
            operations: Some(operations.clone()),
            ..Observer::default()
        };
        let options = Options {
            observer,
            ..Options::new(OnLoss::Reconnect)
        };
        let connection = connection::connect(&address, options).await?;
        let ask = || identity::driver_name(connection.channel(), timeout);
        let name = identity::unless_it_stood_still(timeout, ask).await?;
        operations.set_driver_name(&name);
        Ok(Self {
            connection,
            address,
            timeout,
            name,
            ready,
        })
    }

    /// The driver's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the driver accepts calls.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits until the driver is ready, then follows its restarts.
    ///
    /// # Errors
    /// Exit code 1: the driver lacks the service, or has another name than before.
    pub async fn keep(&self) -> Result<Infallible, Exit> {
        let mut losses = self.connection.losses();
        identity::probe_until_ready(self.connection.channel(), self.timeout).await?;
        let serves = self.serves().await?;
        self.accept(&self.name, serves)?;
        self.ready.send_replace(true);
        tracing::info!(driver = self.name, "Serving snapshot metadata");
        loop {
            losses.next().await;
            if let Some((name, serves)) = back_at_once(&losses, self.ask()).await {
                self.accept(&name, serves)?;
                continue;
            }
            self.ready.send_replace(false);
            tracing::error!(
                driver = self.name,
                "Lost the connection to the CSI driver, waiting for it to come back"
            );
            let (name, serves) = until_answered(|| self.ask()).await;
            self.accept(&name, serves)?;
            self.ready.send_replace(true);
            tracing::info!(driver = self.name, "The CSI driver is back");
        }
    }

    /// Probes the driver; returns its name and whether it has the SnapshotMetadata service.
    async fn ask(&self) -> Result<(String, bool), String> {
        let text = |error: IdentityError| Chain(&error).to_string();
        match identity::probe(self.connection.channel(), self.timeout).await {
            Ok(true) => {}
            Ok(false) => return Err("CSI driver is not ready".to_owned()),
            Err(status) => return Err(text(IdentityError::Probe(status))),
        }
        let name = identity::driver_name(self.connection.channel(), self.timeout).await;
        Ok((name.map_err(text)?, self.serves().await.map_err(text)?))
    }

    async fn serves(&self) -> Result<bool, IdentityError> {
        let ask = || identity::plugin_capabilities(self.connection.channel(), self.timeout);
        let services = identity::unless_it_stood_still(self.timeout, ask).await?;
        Ok(services.has(Type::SnapshotMetadataService))
    }

    fn accept(&self, name: &str, serves: bool) -> Result<(), Exit> {
        if name != self.name {
            let text = format!("the CSI driver is {name} now, it was {}", self.name);
            return Err(Exit::failure(1, text));
        }
        if !serves {
            let text = format!("CSI driver {name} does not support the SNAPSHOT_METADATA_SERVICE");
            return Err(Exit::failure(1, text));
        }
        Ok(())
    }

    /// Asks for the ranges of a snapshot, over a connection of its own: a client that does not read must not
    /// block other streams.
    ///
    /// # Errors
    /// The driver's status, or the driver does not answer.
    pub async fn stream(
        &self,
        request: &request::Request,
        handle: &str,
        secrets: BTreeMap<String, String>,
        deadline: Deadline,
    ) -> Result<Blocks, Refusal> {
        let channel = connection::dedicated(&self.address, WINDOW).await;
        let channel = channel.map_err(|error| {
            let text = Chain(&error).to_string();
            Refusal::not_ready().because(text)
        })?;
        let mut client =
            tonic::client::Grpc::new(channel).max_decoding_message_size(LONGEST_OF_DRIVER);
        let ready = client.ready().await;
        ready.map_err(|error| Refusal::not_ready().because(Chain(&error).to_string()))?;
        let (starting_offset, max_results) = (request.offset, request.most);
        let answer = match &request.base {
            None => {
                let message = csi::GetMetadataAllocatedRequest {
                    snapshot_id: handle.to_owned(),
                    starting_offset,
                    max_results,
                    secrets,
                };
                let request = timed(message, deadline);
                let codec = Undecoded::default();
                client.server_streaming(request, ALLOCATED, codec).await
            }
            Some(base) => {
                let message = csi::GetMetadataDeltaRequest {
                    base_snapshot_id: base.clone(),
                    target_snapshot_id: handle.to_owned(),
                    starting_offset,
                    max_results,
                    secrets,
                };
                let request = timed(message, deadline);
                client
                    .server_streaming(request, DELTA, Undecoded::default())
                    .await
            }
        };
        let answer = answer.map_err(|status| of_driver(&status))?;
        Ok(Blocks {
            is_over: answer.metadata().contains_key("grpc-status"),
            messages: answer.into_inner(),
        })
    }
}

fn timed<M>(message: M, deadline: Deadline) -> Request<M> {
    let mut request = Request::new(message);
    request.set_timeout(deadline.remaining());
    request
}

/// The messages of one stream.
#[derive(Debug)]
pub struct Blocks {
    messages: Streaming<Bytes>,
    /// The driver's first frame was its status: there are no messages.
    is_over: bool,
}

impl Blocks {
    /// The next message; `None` once the driver has ended the stream with OK.
    ///
    /// # Errors
    /// The driver's status, or the stream stopped without one.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        let message = self.messages.message().await;
        if let Some(message) = message.map_err(|status| of_driver(&status))? {
            return Ok(Some(message));
        }
        // A stream without a status at its end may be incomplete.
        let trailers = self.messages.trailers().await;
        let trailers = trailers.map_err(|status| of_driver(&status))?;
        if self.is_over || trailers.is_some_and(|it| it.contains_key("grpc-status")) {
            return Ok(None);
        }
        let text = "server closed the stream without sending trailers";
        Err(of_driver(&Status::internal(text)))
    }
}

/// Passes messages on encoded: [`crate::plan::ranges`] reads them.
#[derive(Debug)]
struct Undecoded<M>(PhantomData<M>);

impl<M> Default for Undecoded<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<M: Message + 'static> Codec for Undecoded<M> {
    type Encode = M;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Bytewise;

    fn encoder(&mut self) -> Self {
        Self::default()
    }

    fn decoder(&mut self) -> Bytewise {
        Bytewise
    }
}

impl<M: Message + 'static> Encoder for Undecoded<M> {
    type Item = M;
    type Error = Status;

    fn encode(&mut self, message: M, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let encoded = message.encode(buffer);
        encoded.map_err(|error| Status::internal(error.to_string()))
    }
}

#[derive(Debug)]
struct Bytewise;

impl Decoder for Bytewise {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
