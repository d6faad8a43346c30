//! A channel to a scripted driver through a pipe in memory, which needs no I/O driver: tests with paused time can use it.

use std::future::{Ready, ready};
use std::io;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use sidecar_testkit::driver::scripted::Driver;
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tonic::transport::Uri;

use super::observe::{Channel, Observer};
use super::stream::State;

pub(super) async fn channel(driver: &Driver, observer: Observer) -> Channel {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (never, stopped) = watch::channel(false);
    std::mem::forget(never);
    tokio::spawn(driver.clone().converse(far, stopped));
    let transport = super::connection::endpoint()
        .connect_with_connector(Pipe(Some(near)))
        .await
        .unwrap();
    let state = State {
        connected: true,
        ..State::default()
    };
    let (sender, state) = watch::channel(state);
    std::mem::forget(sender);
    Channel::new(transport, observer, state)
}

struct Pipe(Option<DuplexStream>);

impl tower_service::Service<Uri> for Pipe {
    type Response = TokioIo<DuplexStream>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let stream = self.0.take().map(TokioIo::new);
        ready(stream.ok_or_else(|| io::Error::other("closed")))
    }
}
