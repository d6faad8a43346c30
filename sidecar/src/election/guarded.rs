//! Request bodies that are blocked once another process may hold the lease.
//!
//! Between the last check of a request and the kernel, the request waits for a connection or for room on
//! it. A server does nothing before it has the whole request, so the body is the place to check again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, SizeHint};

use super::Fence;

/// A body that is sent only while the lease is held.
#[derive(Debug)]
pub struct Guarded<B> {
    body: B,
    fence: Fence,
}

impl<B> Guarded<B> {
    /// Guards `body` with `fence`.
    pub fn new(body: B, fence: Fence) -> Self {
        Self { body, fence }
    }
}

impl<B: Body + Unpin> Body for Guarded<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        ready!(self.fence.poll_send());
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_leaves_under_the_lease_alone() {
        let body = || Full::new(Bytes::from_static(b"{}"));
        let fence = Fence::default();
        let mut guarded = Guarded::new(body(), fence.clone());
        assert_eq!(guarded.size_hint().exact(), Some(2));
        let frame = guarded.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), Bytes::from_static(b"{}"));

        let mut held_back = Guarded::new(body(), fence.clone());
        fence.close();
        let soon = std::time::Duration::from_secs(60);
        assert!(timeout(soon, held_back.frame()).await.is_err());
    }
}
