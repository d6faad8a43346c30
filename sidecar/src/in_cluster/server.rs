//! The URL of the pod's API server.

/// The API server's address is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nowhere {
    /// This is not a pod, and no file was named.
    #[error(
        "unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined; outside a cluster name a file with --kubeconfig"
    )]
    NotInCluster,
    /// The port is not a number, as when a Service of the pod's namespace is named `kubernetes-service`.
    #[error(
        "in-cluster configuration: KUBERNETES_SERVICE_PORT={0} is no port; if the namespace has a Service called kubernetes-service, set enableServiceLinks: false in the pod's spec, or rename the Service"
    )]
    Port(String),
}

/// The URL of the API server at `$KUBERNETES_SERVICE_HOST` and `$KUBERNETES_SERVICE_PORT`; empty if they are not set.
///
/// # Errors
/// This is not a pod, or the variables are those of another Service.
pub fn server(host: &str, port: &str) -> Result<String, Nowhere> {
    if host.is_empty() || port.is_empty() {
        return Err(Nowhere::NotInCluster);
    }
    if port.parse::<u16>().is_err() {
        return Err(Nowhere::Port(port.to_owned()));
    }
    // An IPv6 address must stand in brackets.
    let host = match host.parse::<std::net::Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => host.to_owned(),
    };
    Ok(format!("https://{host}:{port}"))
}
