//! SnapshotMetadata: compares images block by block, as long as the caller reads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;

use csi_proto::csi;
use csi_proto::csi::snapshot_metadata_server::SnapshotMetadata;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::{Code, Request, Response, Status};

use super::Driver;
use super::grpc::Services;
use crate::instrument::settings::Part;
use crate::plan::Refusal;
use crate::plan::metadata::{BLOCK, Question};

/// Number of blocks per read.
const AT_ONCE: i64 = 256;
/// Bytes of a block, and of one read.
const BYTES: usize = 4096;
const PIECE: usize = 256 * BYTES;

type Message = csi::GetMetadataAllocatedResponse;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
type Begun<T> = Result<Response<Answers<T>>, Status>;
type Sending = Sender<Result<Message, Status>>;

fn message(capacity: i64, ranges: impl IntoIterator<Item = (i64, i64)>) -> Message {
    let ranges = ranges.into_iter();
    Message {
        block_metadata_type: csi::BlockMetadataType::FixedLength.into(),
        volume_capacity_bytes: capacity,
        block_metadata: ranges
            .map(|(byte_offset, size_bytes)| csi::BlockMetadata {
                byte_offset,
                size_bytes,
            })
            .collect(),
    }
}

impl Driver {
    fn question(
        &self,
        ids: (Option<&str>, &str),
        numbers: (i64, i32),
    ) -> Result<Question, Refusal> {
        self.store
            .read(|state| Question::of(state, ids, numbers))
            .map_err(Refusal::from)?
    }

    /// Compares; stops early if the caller has gone away.
    fn compare(&self, question: &Question, sending: &Sending) -> std::io::Result<()> {
        let open = |snapshot: &crate::model::snapshot::Snapshot| {
            let storage = &self.targets.storage;
            File::open(storage.of_snapshot(&snapshot.id, snapshot.backing))
        };
        let target = open(&question.target)?;
        let base = question.base.as_ref().map(open).transpose()?;
        let size = question.target.size;
        let mut found = Vec::new();
        let mut first = question.first;
        while first * BLOCK < size {
            let piece = read(&target, first)?;
            let other = base.as_ref().map(|base| read(base, first)).transpose()?;
            let zeros = vec![0; piece.len()];
            let other = other.unwrap_or(zeros);
            let blocks = piece.chunks(BYTES).zip(other.chunks(BYTES));
            for (number, (one, another)) in (first..).zip(blocks) {
                if one != another && number * BLOCK < size {
                    found.push((number * BLOCK, BLOCK.min(size - number * BLOCK)));
                }
                if found.len() == question.most {
                    let full = message(size, std::mem::take(&mut found));
                    if sending.blocking_send(Ok(full)).is_err() {
                        return Ok(());
                    }
                }
            }
            first += AT_ONCE;
        }
        if !found.is_empty() {
            let _caller_is_gone = sending.blocking_send(Ok(message(size, found)));
        }
        Ok(())
    }

    fn answer(self: Arc<Self>, question: Question) -> Receiver<Result<Message, Status>> {
        let (sending, receiving) = channel(1);
        if let Some(parts) = self.settings().metadata {
            tokio::spawn(pretend(parts, question.target.size, sending));
            return receiving;
        }
        tokio::task::spawn_blocking(move || {
            if let Err(error) = self.compare(&question, &sending) {
                let _caller_is_gone =
                    sending.blocking_send(Err(Status::internal(error.to_string())));
            }
        });
        receiving
    }
}

/// Reads blocks from `first` on; beyond the end of the file all bytes are zero.
fn read(file: &File, first: i64) -> std::io::Result<Vec<u8>> {
    let mut piece = vec![0; PIECE];
    let (mut filled, start) = (0, (first * BLOCK).unsigned_abs());
    while let Some(rest) = piece.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, start + filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(piece)
}

/// Streams the parts that a test has set.
async fn pretend(parts: Vec<Part>, size: i64, sending: Sending) {
    let mut next = 0;
    for part in parts {
        let sent = match part {
            Part::Ranges(ranges) => sending.send(Ok(message(size, ranges))).await,
            Part::Endless(count) => loop {
                let blocks = (next..next + count).map(|number| (number * BLOCK, BLOCK));
                let sent = sending.send(Ok(message(size, blocks))).await;
                if sent.is_err() {
                    break sent;
                }
                next += count;
            },
            Part::Stall => {
                sending.closed().await;
                return;
            }
            Part::Fail { code, message } => {
                let status = Status::new(code.0, message);
                sending.send(Err(status)).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

fn streamed<T: Send + 'static>(
    receiving: Receiver<Result<Message, Status>>,
    as_answer: fn(Message) -> T,
) -> Begun<T> {
    let answers = unfold(receiving, move |mut receiving| async move {
        let next = receiving.recv().await?;
        Some((next.map(as_answer), receiving))
    });
    Ok(Response::new(Box::pin(answers)))
}

impl Services {
    async fn begin(
        &self,
        (base, target): (Option<String>, String),
        numbers: (i64, i32),
    ) -> Result<Receiver<Result<Message, Status>>, Status> {
        let driver = Arc::clone(&self.0);
        let asked = Arc::clone(&driver);
        let asking = tokio::task::spawn_blocking(move || {
            asked.question((base.as_deref(), &target), numbers)
        });
        match asking.await {
            Ok(question) => Ok(driver.answer(question?)),
            Err(error) => Err(Status::new(
                Code::Internal,
                format!("the driver failed: {error}"),
            )),
        }
    }
}

#[tonic::async_trait]
impl SnapshotMetadata for Services {
    type GetMetadataAllocatedStream = Answers<csi::GetMetadataAllocatedResponse>;
    type GetMetadataDeltaStream = Answers<csi::GetMetadataDeltaResponse>;

    async fn get_metadata_allocated(
        &self,
        request: Request<csi::GetMetadataAllocatedRequest>,
    ) -> Begun<csi::GetMetadataAllocatedResponse> {
        let request = request.into_inner();
        let numbers = (request.starting_offset, request.max_results);
        let begun = self.begin((None, request.snapshot_id), numbers).await?;
        streamed(begun, |message| message)
    }

    async fn get_metadata_delta(
        &self,
        request: Request<csi::GetMetadataDeltaRequest>,
    ) -> Begun<csi::GetMetadataDeltaResponse> {
        let request = request.into_inner();
        let numbers = (request.starting_offset, request.max_results);
        let ids = (Some(request.base_snapshot_id), request.target_snapshot_id);
        let begun = self.begin(ids, numbers).await?;
        streamed(begun, |message| csi::GetMetadataDeltaResponse {
            block_metadata_type: message.block_metadata_type,
            volume_capacity_bytes: message.volume_capacity_bytes,
            block_metadata: message.block_metadata,
        })
    }
}
