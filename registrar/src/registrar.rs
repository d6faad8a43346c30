//! The work of the registrar, in a process of its own or in one that it shares with other programs.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use sidecar::error::Chain;
use sidecar::flags::Exit;
use sidecar::http::Server;
use sidecar::shutdown::Requested;

use crate::args::{Config, Http};
use crate::driver::Driver;
use crate::health::{self, RegistrationHealth};
use crate::registration::Plugin;
use crate::registration_status;
use crate::serve::serve;
use crate::socket::{self, Presence, RegistrationSocket, SocketError};

/// A driver with a known name that has to be registered.
#[derive(Debug)]
pub struct Registrar {
    config: Config,
    driver: Driver,
    plugin: Arc<Plugin>,
    path: PathBuf,
}

/// End of a registration that no signal caused.
#[derive(Debug)]
pub enum Ended {
    /// kubelet has refused it, or the driver has another name now: the caller may start again.
    ForNow(Exit),
    /// Only a restart of the container helps: the process cannot listen, or the directory of the socket was replaced,
    /// and a container keeps the one that it started with.
    ForGood(Exit),
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::ForNow(exit) | Ended::ForGood(exit) => exit,
        }
    }
}

impl From<SocketError> for Ended {
    fn from(error: SocketError) -> Self {
        Self::ForGood(error.into())
    }
}

impl Registrar {
    /// Connects to the driver, which may take thirty seconds, and gets its name.
    ///
    /// # Errors
    /// The driver cannot be reached, or its name is invalid.
    pub async fn meet_driver(config: Config) -> Result<Self, Exit> {
        if config.connection_timeout {
            tracing::info!("--connection-timeout has no effect; connecting may take 30s");
        }
        let driver = Driver::connect(&config.csi_address, config.timeout).await?;
        let path = socket::path(&config.directory, driver.name())?;
        let plugin = Arc::new(Plugin::new(driver.name(), &config.endpoint));
        Ok(Self {
            config,
            driver,
            plugin,
            path,
        })
    }

    /// Health and progress of the registration.
    #[must_use]
    pub fn health(&self) -> RegistrationHealth {
        RegistrationHealth::new(&self.plugin, &self.path, self.config.timeout)
    }

    /// Registers the driver and keeps it registered until `ending`; then removes the socket. Serves HTTP by itself, if
    /// the flags enable it.
    ///
    /// # Errors
    /// kubelet has refused, the driver has another name, or the process cannot listen.
    pub async fn run(self, ending: &Requested) -> Result<(), Ended> {
        let health = self.health();
        let Self {
            config,
            driver,
            plugin,
            path,
        } = self;
        let mut socket = RegistrationSocket::create(path)?;
        let path = socket.path().to_owned();
        tracing::info!(
            driver = driver.name(),
            endpoint = config.endpoint,
            socket = %path.display(),
            "Waiting for kubelet to register the driver"
        );
        let http = async {
            match &config.http {
                Some(http) => serve_http(http, &health).await,
                None => {
                    tracing::info!(
                        "No HTTP server: neither --http-endpoint nor --health-port is set"
                    );
                    std::future::pending().await
                }
            }
        };
        tokio::select! {
            biased;
            () = ending.requested() => {}
            reason = plugin.refused() => {
                // The socket stays: its removal would mean a deregistration.
                let text = format_args!("kubelet refused to register the driver: {reason}");
                return Err(Ended::ForNow(Exit::failure(1, text)));
            }
            exit = http => return Err(Ended::ForGood(exit)),
            renamed = driver.renamed() => return Err(Ended::ForNow(renamed.into())),
            lost = serve(&mut socket, &plugin) => return Err(lost.into()),
            never = remark_on_silence(&plugin, || tracing::warn!("{}", registration_status::NOT_ASKED)) => match never {},
        }
        if socket.remove()? == Presence::Foreign {
            let path = path.display();
            tracing::info!(%path, "The socket is not removed, it belongs to another process");
        }
        Ok(())
    }
}

/// Ends only if it cannot listen.
async fn serve_http(http: &Http, health: &RegistrationHealth) -> Exit {
    let routes = match health::routes(health, http.pprof) {
        Ok(routes) => routes,
        Err(error) => return error.into(),
    };
    match Server::bind(&http.address).await {
        Ok(server) => {
            // The system may have chosen the port.
            let address = server
                .local_addr()
                .map_or_else(|_| http.address.clone(), |address| address.to_string());
            tracing::info!(address, "HTTP server is listening");
            server.serve(routes).await;
            std::future::pending().await
        }
        Err(error) => Exit::failure(
            1,
            format_args!(
                "{}: cannot start the HTTP server: {}",
                http.flag,
                Chain(&error)
            ),
        ),
    }
}

/// Calls `remark` if kubelet does not call: such a registrar looks healthy from everywhere else. Each new socket gives
/// kubelet as much time as the first one.
async fn remark_on_silence(plugin: &Plugin, mut remark: impl FnMut()) -> Infallible {
    let mut starts = plugin.starts();
    loop {
        tokio::select! {
            Ok(()) = starts.changed() => continue,
            () = tokio::time::sleep(registration_status::GET_INFO_TIMEOUT) => {}
        }
        if plugin.progress().asked.is_none() {
            remark();
        }
        if starts.changed().await.is_err() {
            // The sender is part of `plugin`.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn fr_6_each_new_socket_that_kubelet_does_not_see_is_remarked_on() {
        let plugin = Plugin::new("d.example.com", "/csi.sock");
        let remarks = Cell::new(0);
        let silence = remark_on_silence(&plugin, || remarks.set(remarks.get() + 1));
        let course = async {
            sleep(Duration::from_secs(29)).await;
            assert_eq!(remarks.get(), 0);
            sleep(Duration::from_secs(300)).await;
            assert_eq!(remarks.get(), 1, "once for each socket");
            for sockets in 2..=3 {
                plugin.start_over();
                sleep(Duration::from_secs(29)).await;
                assert_eq!(remarks.get(), sockets - 1);
                sleep(Duration::from_secs(300)).await;
                assert_eq!(remarks.get(), sockets);
            }
        };
        tokio::select! {
            never = silence => match never {},
            () = course => {}
        }
    }
}
