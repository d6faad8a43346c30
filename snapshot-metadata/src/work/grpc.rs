//! gRPC on one stream of HTTP/2.
//!
//! Written by hand, because hyper's server polls for the next piece of a response only once the client's
//! window has room, so a deadline passes unnoticed while the client does not read. This one writes as
//! far as the window allows, and can end a response without a reader.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use prost::Message;
use sidecar::text::truncated;
use tokio::time::timeout;
use tonic::{Code, Status};

/// Longest request in bytes.
const LONGEST: usize = 64 << 10;
/// How long a request may take to arrive. It has a few hundred bytes; a slower client is not interested
/// in the response.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes that are queued in the connection for one stream, within the client's window.
const AT_ONCE: usize = 32 << 10;
/// Longest status message: it is a header, and clients limit headers.
const LONGEST_TEXT: usize = 8 << 10;
const TYPE: &str = "application/grpc";

/// The client has cancelled the call, or has disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Whether the request's content type is gRPC's.
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(TYPE.as_bytes()))
}

/// The client's `grpc-timeout`.
#[must_use]
pub fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_hours(count),
        "M" => Duration::from_mins(count),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Reads the request's only message.
///
/// # Errors
/// The status that the client gets.
pub async fn request<M: Message + Default>(body: &mut RecvStream) -> Result<M, Status> {
    let frame = timeout(CLIENT_TIMEOUT, collect(body)).await;
    let frame =
        frame.map_err(|_elapsed| Status::deadline_exceeded("the request does not end"))??;
    let Some((head, message)) = frame.split_first_chunk::<5>() else {
        return Err(Status::internal("the request has no message"));
    };
    let [compressed, length @ ..] = *head;
    if compressed != 0 {
        return Err(Status::unimplemented(
            "compressed requests are not supported",
        ));
    }
    if usize::try_from(u32::from_be_bytes(length)).ok() != Some(message.len()) {
        return Err(Status::internal("the request is not exactly one message"));
    }
    M::decode(message).map_err(|error| Status::internal(error.to_string()))
}

async fn collect(body: &mut RecvStream) -> Result<BytesMut, Status> {
    let mut frame = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| Status::cancelled(error.to_string()))?;
        if frame.len() + data.len() > LONGEST {
            let text = format!("grpc: received message larger than max ({LONGEST})");
            return Err(Status::resource_exhausted(text));
        }
        // The stream's own error comes from the next read.
        let _ = body.flow_control().release_capacity(data.len());
        frame.put(data);
    }
    Ok(frame)
}

/// The response to one call.
#[derive(Debug)]
pub struct Answer {
    respond: SendResponse<Bytes>,
    /// The response's stream; `None` until its headers were sent.
    stream: Option<SendStream<Bytes>>,
    /// A message was sent in part.
    is_partial: bool,
}

impl Answer {
    /// A response that has sent nothing yet.
    #[must_use]
    pub fn new(respond: SendResponse<Bytes>) -> Self {
        Self {
            respond,
            stream: None,
            is_partial: false,
        }
    }

    /// Refuses a request that is not one of gRPC.
    pub fn refuse(mut self, status: StatusCode) {
        let mut response = Response::new(());
        *response.status_mut() = status;
        // The client may have disconnected.
        let _ = self.respond.send_response(response, true);
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone> {
        let reset = match &mut self.stream {
            Some(stream) => stream.poll_reset(cx),
            None => self.respond.poll_reset(cx),
        };
        reset.map(|_| Gone)
    }

    /// Runs `doing`, unless the client disconnects or cancels before it is done.
    ///
    /// # Errors
    /// The client did.
    pub async fn unless_gone<T>(&mut self, doing: impl Future<Output = T>) -> Result<T, Gone> {
        let mut doing = pin!(doing);
        poll_fn(|cx| match self.poll_gone(cx) {
            Poll::Ready(gone) => Poll::Ready(Err(gone)),
            Poll::Pending => doing.as_mut().poll(cx).map(Ok),
        })
        .await
    }

    /// Sends a message, which is given in two parts, as fast as the client reads it.
    ///
    /// # Errors
    /// The client has disconnected or cancelled.
    pub async fn send(&mut self, first: &[u8], second: &[u8]) -> Result<(), Gone> {
        let length = u32::try_from(first.len() + second.len()).map_err(|_| Gone)?;
        let mut head = BytesMut::with_capacity(5 + first.len());
        head.put_u8(0);
        head.put_u32(length);
        head.put(first);
        self.is_partial = true;
        self.write(&head).await?;
        self.write(second).await?;
        self.is_partial = false;
        Ok(())
    }

    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            empty => empty.insert(begin(&mut self.respond)?),
        };
        while !bytes.is_empty() {
            stream.reserve_capacity(bytes.len().min(AT_ONCE));
            let mut room = stream.capacity();
            while room == 0 {
                let more = poll_fn(|cx| stream.poll_capacity(cx)).await;
                room = more.and_then(Result::ok).ok_or(Gone)?;
            }
            let chunk = bytes.get(..room.min(AT_ONCE)).unwrap_or(bytes);
            // A copy: a slice would keep the driver's whole message in memory until the client has read
            // it.
            let copy = Bytes::copy_from_slice(chunk);
            bytes.advance(chunk.len());
            stream.send_data(copy, false).map_err(|_closed| Gone)?;
        }
        Ok(())
    }

    /// Ends the call. If the client has read a message only in part, its stream is reset: it would not
    /// get to a status behind that.
    pub fn end(mut self, status: &Status) {
        let mut trailers = HeaderMap::new();
        let text = truncated(status.message(), LONGEST_TEXT);
        if Status::new(status.code(), text)
            .add_header(&mut trailers)
            .is_err()
        {
            trailers.insert("grpc-status", HeaderValue::from(i32::from(Code::Internal)));
        }
        // An error means that the client is gone, which changes nothing.
        let _ = match &mut self.stream {
            None => {
                let mut response = response();
                response.headers_mut().extend(trailers);
                self.respond.send_response(response, true).map(drop)
            }
            Some(stream) if self.is_partial => {
                stream.send_reset(Reason::CANCEL);
                Ok(())
            }
            Some(stream) => stream.send_trailers(trailers),
        };
    }
}

fn begin(respond: &mut SendResponse<Bytes>) -> Result<SendStream<Bytes>, Gone> {
    let begun = respond.send_response(response(), false);
    begun.map_err(|_closed| Gone)
}

fn response() -> Response<()> {
    let mut response = Response::new(());
    let kind = HeaderValue::from_static(TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_clients() {
        let of = |text: &'static str| {
            let value = HeaderValue::from_static(text);
            timeout_of(&HeaderMap::from_iter([(
                "grpc-timeout".parse().unwrap(),
                value,
            )]))
        };
        assert_eq!(of("10S"), Some(Duration::from_secs(10)));
        assert_eq!(of("99999999H"), Some(Duration::from_hours(99_999_999)));
        for text in ["", "S", "x", "10", "10x", "-1S", "999999999S"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(truncated("a", LONGEST_TEXT), "a");
        let long = "é".repeat(LONGEST_TEXT);
        assert_eq!(truncated(&long, LONGEST_TEXT).len(), LONGEST_TEXT);
        assert_eq!(
            truncated(&long[..LONGEST_TEXT], LONGEST_TEXT).len(),
            LONGEST_TEXT
        );
        assert_eq!(
            truncated(&format!("a{long}"), LONGEST_TEXT).len(),
            LONGEST_TEXT - 1
        );
    }
}
