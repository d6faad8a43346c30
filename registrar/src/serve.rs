//! Keeps the registration socket in its place and answers on it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sidecar::error::Chain;
use sidecar::verbose;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use crate::grpc;
use crate::registration::{self, Plugin};
use crate::socket::{Presence, RegistrationSocket};

/// kubelet looks for changes as often. Looking costs one system call; an inotify watch would need
/// the same look after it, and another watch on the directory's parents.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Peers at the same time; kubelet uses one connection, and each health check another.
const PEERS: usize = 128;
/// Pause when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers kubelet for ever. The socket is created again whenever it is gone.
pub async fn serve(socket: &mut RegistrationSocket, plugin: &Arc<Plugin>) -> Infallible {
    let room = Arc::new(Semaphore::new(PEERS));
    let mut ticks = tokio::time::interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut trouble = Trouble::default();
    loop {
        let accept = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            (socket.listener().accept().await, permit)
        };
        tokio::select! {
            (accepted, permit) = accept => match accepted {
                Ok((stream, _)) => {
                    let plugin = Arc::clone(plugin);
                    tokio::spawn(async move {
                        converse(stream, plugin).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            _ = ticks.tick() => keep(socket, plugin, &mut trouble),
        }
    }
}

async fn converse(stream: UnixStream, plugin: Arc<Plugin>) {
    let own = i32::try_from(std::process::id()).ok();
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let is_kubelet = peer.is_none() || peer != own;
    let service = registration::service(plugin, is_kubelet);
    if let Err(error) = grpc::serve(stream, service).await {
        verbose!(4, error = %Chain(&error), "Connection to the registration socket ended");
    }
}

/// The last thing that was wrong with the socket, so that it is logged once and not every second.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn is(&mut self, text: String) {
        if self.0.as_ref() != Some(&text) {
            tracing::error!("{text}");
            self.0 = Some(text);
        }
    }
}

fn keep(socket: &mut RegistrationSocket, plugin: &Plugin, trouble: &mut Trouble) {
    match socket.presence() {
        Ok(Presence::Ours) => trouble.0 = None,
        Ok(Presence::Gone) => match socket.create_again() {
            Ok(()) => {
                plugin.start_over();
                trouble.0 = None;
                let path = socket.path().display();
                tracing::warn!(%path, "The registration socket was gone and is created again");
            }
            Err(error) => trouble.is(format!(
                "The registration socket is gone and cannot be created again: {}",
                Chain(&error)
            )),
        },
        Ok(Presence::Foreign) => trouble.is(format!(
            "{} is not the socket of this process any more: another registrar of the driver runs, \
             or the file was replaced",
            socket.path().display()
        )),
        Err(error) => trouble.is(format!(
            "--plugin-registration-path: cannot look at {}: {error}",
            socket.path().display()
        )),
    }
}
