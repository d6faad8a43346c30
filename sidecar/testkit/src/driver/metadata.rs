//! Scripted streams of block ranges: well-behaved ones and others.

use std::pin::Pin;
use std::time::Duration;

use csi_proto::csi::snapshot_metadata_server::SnapshotMetadata;
use csi_proto::csi::{
    BlockMetadata, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest, GetMetadataDeltaResponse,
};
use futures_util::Stream;
use futures_util::stream::unfold;
use tonic::{Code, Request, Response, Status};

use super::FakeDriver;
use super::model::Model;
use super::service::Running;

/// Size of a block.
const BLOCK: i64 = 4096;
/// Size of the volume, unless a part says otherwise.
const CAPACITY: i64 = 1 << 40;

/// The next part of a stream.
#[derive(Clone, Debug)]
pub enum Part {
    /// A message with this many blocks, which follow the previous ones.
    Blocks(i64),
    /// A message with these ranges, by offset and size.
    Ranges(Vec<(i64, i64)>),
    /// Messages with this many blocks each, for ever.
    Endless(i64),
    /// Sets the type of later messages, and the size of their volume.
    Shape(i32, i64),
    /// A pause.
    Wait(Duration),
    /// Nothing more, without an end.
    Hang,
    /// Ends the stream with this status.
    Fail(Code, String),
}

struct Streaming {
    /// Closes the record of the call when the caller goes away.
    running: Running,
    parts: std::vec::IntoIter<Part>,
    endless: Option<i64>,
    next: i64,
    shape: (i32, i64),
}

impl Streaming {
    fn blocks(&mut self, count: i64) -> GetMetadataAllocatedResponse {
        let first = self.next;
        self.next += count;
        self.message((first..first + count).map(|n| (n * BLOCK, BLOCK)))
    }

    fn message(
        &self,
        ranges: impl IntoIterator<Item = (i64, i64)>,
    ) -> GetMetadataAllocatedResponse {
        let ranges = ranges.into_iter();
        let ranges = ranges.map(|(byte_offset, size_bytes)| BlockMetadata {
            byte_offset,
            size_bytes,
        });
        GetMetadataAllocatedResponse {
            block_metadata_type: self.shape.0,
            volume_capacity_bytes: self.shape.1,
            block_metadata: ranges.collect(),
        }
    }

    async fn next(mut self) -> Option<(Result<GetMetadataAllocatedResponse, Status>, Self)> {
        if let Some(count) = self.endless {
            let message = self.blocks(count);
            return Some((Ok(message), self));
        }
        loop {
            let Some(part) = self.parts.next() else {
                self.running.code = Some(Code::Ok);
                return None;
            };
            let message = match part {
                Part::Blocks(count) => self.blocks(count),
                Part::Ranges(ranges) => self.message(ranges),
                Part::Endless(count) => {
                    self.endless = Some(count);
                    self.blocks(count)
                }
                Part::Shape(kind, capacity) => {
                    self.shape = (kind, capacity);
                    continue;
                }
                Part::Wait(time) => {
                    tokio::time::sleep(time).await;
                    continue;
                }
                Part::Hang => std::future::pending().await,
                Part::Fail(code, text) => {
                    self.running.code = Some(code);
                    self.parts = Vec::new().into_iter();
                    return Some((Err(Status::new(code, text)), self));
                }
            };
            return Some((Ok(message), self));
        }
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl FakeDriver {
    async fn streaming<T: prost::Message + Clone + std::fmt::Debug + 'static>(
        &self,
        method: &'static str,
        subject: Vec<String>,
        request: Request<T>,
    ) -> Result<Streaming, Status> {
        let (mut running, actions) = self.begin(method, subject, &request);
        self.changed();
        let parts = |model: &mut Model, _: &T| Ok(model.metadata.clone());
        let parts = self.bent(actions, request.get_ref(), parts).await;
        if let Err(status) = &parts {
            running.code = Some(status.code());
        }
        Ok(Streaming {
            running,
            parts: parts?.into_iter(),
            endless: None,
            next: 0,
            shape: (1, CAPACITY),
        })
    }
}

#[tonic::async_trait]
impl SnapshotMetadata for FakeDriver {
    type GetMetadataAllocatedStream = Answers<GetMetadataAllocatedResponse>;
    type GetMetadataDeltaStream = Answers<GetMetadataDeltaResponse>;

    async fn get_metadata_allocated(
        &self,
        request: Request<GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        let subject = vec![request.get_ref().snapshot_id.clone()];
        let streaming = self
            .streaming("GetMetadataAllocated", subject, request)
            .await?;
        Ok(Response::new(Box::pin(unfold(streaming, Streaming::next))))
    }

    async fn get_metadata_delta(
        &self,
        request: Request<GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        let subject = vec![request.get_ref().target_snapshot_id.clone()];
        let streaming = self.streaming("GetMetadataDelta", subject, request).await?;
        let answers = unfold(streaming, async |streaming: Streaming| {
            let (message, rest) = streaming.next().await?;
            let message = message.map(|message| GetMetadataDeltaResponse {
                block_metadata_type: message.block_metadata_type,
                volume_capacity_bytes: message.volume_capacity_bytes,
                block_metadata: message.block_metadata,
            });
            Some((message, rest))
        });
        Ok(Response::new(Box::pin(answers)))
    }
}
