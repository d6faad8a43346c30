//! Keeps the registration socket in its place, and serves it.

use std::sync::Arc;
use std::time::Duration;

use sidecar::error::Chain;
use sidecar::verbose;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::directory::DirectoryWatch;
use crate::grpc;
use crate::registration::{self, Plugin};
use crate::socket::{Identity, Presence, RegistrationSocket, SocketError};

/// Pause between two looks at a socket in its place whose directory is watched: for changes that the watch does not
/// report, such as a moved parent directory.
const WATCHED: Duration = Duration::from_secs(60);
/// Pause between two looks in case of trouble, and without a watch; kubelet looks as often.
const TROUBLE: Duration = Duration::from_secs(1);
/// Pause between two looks at the socket of another instance, which may be dead.
const FOREIGN: Duration = Duration::from_secs(5);
/// Delay between a change in the directory and a look. A newer instance removes the socket before it creates its own,
/// and must not find that this one was quicker.
const SETTLE: Duration = Duration::from_millis(100);
/// After this long, this process will never be able to create the socket again: if the host has replaced the directory,
/// a container keeps the deleted one until it restarts.
const GIVE_UP: Duration = Duration::from_secs(30);
/// Greatest number of simultaneous peers; kubelet uses one connection, and each health check another.
const PEERS: usize = 128;
/// Pause when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves kubelet until the socket is gone and cannot be created again. Recreates the socket whenever it is gone.
/// Dropping it ends all connections.
pub async fn serve(socket: &mut RegistrationSocket, plugin: &Arc<Plugin>) -> SocketError {
    let slots = Arc::new(Semaphore::new(PEERS));
    let mut peers = JoinSet::new();
    let mut keeper = Keeper::default();
    let mut watch = watch(socket);
    // The watch does not report earlier changes.
    let mut next = Instant::now() + SETTLE;
    loop {
        let accept = async {
            let permit = Arc::clone(&slots).acquire_owned().await;
            (socket.listener().accept().await, permit)
        };
        let changed = async {
            match &watch {
                Some(watch) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            (accepted, permit) = accept => {
                match accepted {
                    Ok((stream, _)) => {
                        let plugin = Arc::clone(plugin);
                        while peers.try_join_next().is_some() {}
                        peers.spawn(async move {
                            converse(stream, plugin).await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "Cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
                continue;
            }
            changed = changed => {
                if changed.is_err() {
                    watch = None;
                }
                next = next.min(Instant::now() + SETTLE);
                continue;
            }
            () = sleep_until(next) => {}
        }
        let look = match keeper.look(socket, plugin, Instant::now()).await {
            Ok(look) => look,
            Err(error) => return error,
        };
        if look.is_new {
            // Perhaps in another directory of the same path.
            watch = self::watch(socket);
            next = Instant::now() + SETTLE;
            continue;
        }
        next = Instant::now()
            + look
                .presence
                .map_or(TROUBLE, |it| pause(it, watch.is_some()));
    }
}

fn pause(presence: Presence, is_watched: bool) -> Duration {
    match presence {
        Presence::Ours if is_watched => WATCHED,
        Presence::Foreign => FOREIGN,
        Presence::Ours | Presence::Gone => TROUBLE,
    }
}

fn watch(socket: &RegistrationSocket) -> Option<DirectoryWatch> {
    // The path was built from a directory and a name.
    match DirectoryWatch::new(socket.path().parent()?) {
        Ok(watch) => Some(watch),
        Err(error) => {
            let every = TROUBLE.as_secs();
            tracing::warn!(
                %error,
                "Cannot watch the directory of the registration socket, looking every {every} s"
            );
            None
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

/// Result of a look at the socket's path.
struct Look {
    /// `None` if the file cannot be examined.
    presence: Option<Presence>,
    /// The socket was created again.
    is_new: bool,
}

/// Guards the socket.
#[derive(Debug, Default)]
struct Keeper {
    /// The last problem, so that it is logged once and not at every look.
    trouble: Option<String>,
    /// Since when the socket has been gone without being recreated.
    gone: Option<Instant>,
    /// The socket of another instance, if no process listened on it at the last look.
    deserted: Option<Identity>,
}

impl Keeper {
    /// Looks at the socket, and creates it again if it is gone.
    ///
    /// # Errors
    /// The socket could not be created for too long.
    async fn look(
        &mut self,
        socket: &mut RegistrationSocket,
        plugin: &Plugin,
        now: Instant,
    ) -> Result<Look, SocketError> {
        let mut presence = socket.presence();
        let deserted = self.deserted.take();
        if matches!(presence, Ok(Presence::Foreign)) {
            // Once is not enough: between bind and listen a socket has no listener either.
            self.deserted = socket.deserted().await;
            if self.deserted.is_some() && self.deserted == deserted {
                presence = socket.remove_deserted().map(|()| Presence::Gone);
            }
        }
        let path = socket.path().display().to_string();
        match &presence {
            Ok(Presence::Ours) => self.trouble = None,
            Ok(Presence::Gone) => return self.create(socket, plugin, now),
            Ok(Presence::Foreign) => {
                self.is_wrong(format!(
                    "{path} is not the socket of this process any more: another registrar of the \
                     driver runs, or the file was replaced"
                ));
            }
            Err(error) => {
                self.is_wrong(format!(
                    "--plugin-registration-path: cannot look at {path}: {error}"
                ));
            }
        }
        self.gone = None;
        Ok(Look {
            presence: presence.ok(),
            is_new: false,
        })
    }

    fn create(
        &mut self,
        socket: &mut RegistrationSocket,
        plugin: &Plugin,
        now: Instant,
    ) -> Result<Look, SocketError> {
        let Err(error) = socket.create_again() else {
            plugin.start_over();
            (self.trouble, self.gone) = (None, None);
            let path = socket.path().display();
            tracing::warn!(%path, "The registration socket was gone and is created again");
            return Ok(Look {
                presence: Some(Presence::Ours),
                is_new: true,
            });
        };
        let since = *self.gone.get_or_insert(now);
        if now.duration_since(since) >= GIVE_UP {
            return Err(error);
        }
        self.is_wrong(format!(
            "The registration socket is gone and cannot be created again: {}",
            Chain(&error)
        ));
        Ok(Look {
            presence: Some(Presence::Gone),
            is_new: false,
        })
    }

    fn is_wrong(&mut self, text: String) {
        if self.trouble.as_ref() != Some(&text) {
            tracing::error!("{text}");
            self.trouble = Some(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fr_13_a_socket_in_its_place_is_looked_at_once_a_minute() {
        assert_eq!(pause(Presence::Ours, true), Duration::from_secs(60));
        assert_eq!(pause(Presence::Ours, false), Duration::from_secs(1));
        assert_eq!(pause(Presence::Gone, true), Duration::from_secs(1));
    }
}
