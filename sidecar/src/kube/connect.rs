//! A client of the API server from flags, files and the environment.

mod api_server;
mod bearer;
mod empty;
mod fenced;
mod files;
mod identity;
mod pool;
mod proxy;
mod settings;
mod source;
mod stack;
mod transport;
mod tunnel;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::kube::client::RustlsTlsError;
use ::kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo,
    NamedCluster, NamedContext,
};
use ::kube::{Client, Config};

use super::rate::{Rate, RateError, RateMetrics, RequestMetrics};
use crate::election::Fence;
use crate::error::Chain;
use crate::flags::Values;
use crate::in_cluster::{SERVICE_ACCOUNT, authority};
use crate::outage::Outage;

use authority::{Authority, Named};
use bearer::Bearer;
use files::{current_cluster, override_server};
use transport::Transport;

pub use crate::in_cluster::{Nowhere, user_agent};
pub use api_server::{ApiServer, Budget};
pub use files::read_files;
pub use proxy::Environment as ProxyEnvironment;
pub use source::{Given, NamedBy, Source, in_cluster, resolve};

/// Time limit of a response, from the moment the request is sent. API servers themselves abort a request
/// after a minute, with an error.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The API server's address is unknown.
    #[error(transparent)]
    Nowhere(#[from] Nowhere),
    /// The rate flags contradict each other.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The kubeconfig file cannot be used.
    #[error("{named_by}={}: {problem}", path.display())]
    File {
        /// The flag or variable that names the file.
        named_by: NamedBy,
        /// The file.
        path: PathBuf,
        /// The problem and its fix.
        problem: String,
    },
    /// The URL of `--master` cannot be used.
    #[error("--master={url}: {problem}")]
    Master {
        /// The URL.
        url: String,
        /// The problem and its fix.
        problem: String,
    },
    /// The pod's credentials cannot be used.
    #[error("in-cluster configuration: {0}")]
    Cluster(String),
}

/// Settings of the connection to the API server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API server's address.
    pub source: Source,
    /// The rate limit of requests.
    pub rate: Rate,
    /// The `User-Agent`.
    pub user_agent: String,
    /// Time limit of a response.
    pub timeout: Duration,
    /// Directory with the pod's credentials.
    pub service_account: PathBuf,
    /// Blocks requests once this process no longer holds the lease.
    pub fence: Fence,
    /// The proxy variables of the environment.
    pub proxies: ProxyEnvironment,
    /// Metrics of the requests of all clients.
    pub requests: Option<RequestMetrics>,
    /// Replaces the contents of the kubeconfig file: command-line tools merge several files into it.
    pub kubeconfig: Option<Kubeconfig>,
}

/// Whether `$KUBECONFIG` is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// The variable is ignored: all programs but the provisioner.
    Ignored,
    /// The variable overrides `--kubeconfig`.
    Overrides,
}

impl Options {
    /// Reads the flags of [`crate::flags::standard::KUBE_API`], `--master` where the program has it, and the
    /// environment. `program` and `version` form the user agent.
    ///
    /// # Errors
    /// The API server's address is unknown, or the rate is contradictory.
    pub fn from_flags(
        values: &Values,
        variable: Variable,
        program: &str,
        version: &str,
    ) -> Result<Self, ConnectError> {
        let read = |name: &str| std::env::var(name).ok();
        let (host, port) = (
            read("KUBERNETES_SERVICE_HOST"),
            read("KUBERNETES_SERVICE_PORT"),
        );
        let file = match variable {
            Variable::Ignored => None,
            Variable::Overrides => read("KUBECONFIG"),
        };
        let source = resolve(Given {
            kubeconfig: values.string("kubeconfig"),
            master: if values.has("master") {
                values.string("master")
            } else {
                ""
            },
            variable: file.as_deref(),
            host: host.as_deref(),
            port: port.as_deref(),
        })?;
        let proxies = ProxyEnvironment::read(read);
        Ok(Self {
            proxies,
            ..Self::new(source, Rate::from_flags(values)?, program, version)
        })
    }

    /// Options with the usual timeout and credentials directory, without election and proxies.
    pub fn new(source: Source, rate: Rate, program: &str, version: &str) -> Self {
        Self {
            source,
            rate,
            user_agent: user_agent(program, version),
            timeout: REQUEST_TIMEOUT,
            service_account: SERVICE_ACCOUNT.into(),
            fence: Fence::default(),
            proxies: ProxyEnvironment::default(),
            requests: None,
            kubeconfig: None,
        }
    }

    /// The budget of a client with these options' rate and user agent.
    pub fn budget(&self, metrics: Option<RateMetrics>) -> Budget {
        Budget {
            rate: self.rate,
            user_agent: self.user_agent.clone(),
            metrics,
            fence: Fence::default(),
        }
    }

    fn error(&self, problem: String) -> ConnectError {
        match &self.source {
            Source::File { path, named_by, .. } => ConnectError::File {
                named_by: *named_by,
                path: path.clone(),
                problem,
            },
            Source::Server(url) => ConnectError::Master {
                url: url.clone(),
                problem,
            },
            Source::Cluster { .. } => ConnectError::Cluster(problem),
        }
    }
}

/// Makes a client with its own connections. Nothing is sent to the API server yet.
///
/// # Errors
/// One line that names the flag or file at fault and the fix.
pub async fn connect(
    options: &Options,
    metrics: Option<RateMetrics>,
) -> Result<Client, ConnectError> {
    let server = ApiServer::new(options).await?;
    Ok(server.client(options.budget(metrics), &Outage::default()))
}

/// The connections, and the namespace that the kubeconfig names.
async fn transport(options: &Options) -> Result<(Transport, String), ConnectError> {
    let refused = |problem| options.error(problem);
    let mut kubeconfig = kubeconfig(options)?;
    let cluster = current_cluster(&mut kubeconfig);
    let (named, authority) = match cluster {
        Some(cluster) => (
            cluster.proxy_url.take(),
            named_authority(cluster).map_err(refused)?,
        ),
        None => (None, None),
    };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| options.error(explain(&error)))?;
    // The library takes it from HTTPS_PROXY, ignoring NO_PROXY.
    config.proxy_url = None;
    let trusts_nobody = authority.is_none() && !config.accept_invalid_certs;
    let authority = with_authority(&mut config, authority).map_err(refused)?;
    let proxy =
        proxy::choose(named.as_deref(), &options.proxies, &config.cluster_url).map_err(refused)?;
    let bearer = Bearer::take(&mut config.auth_info).map_err(refused)?;
    let namespace = config.default_namespace.clone();
    let fence = options.fence.clone();
    let transport = Transport::new(config, authority, proxy, bearer, fence);
    let transport = transport.map_err(|error| {
        let problem = explain_client(&error);
        if matches!(error, ::kube::Error::RustlsTls(_)) && trusts_nobody {
            return options.error(format!(
                "{problem}; add certificate-authority or certificate-authority-data to the cluster"
            ));
        }
        options.error(problem)
    })?;
    Ok((transport, namespace))
}

/// Takes the certificate authority out of `cluster`: the library refuses a bundle with one certificate that
/// it cannot read, and servers whose certificate is itself in the bundle.
///
/// # Errors
/// The data is not base64, or the kubeconfig both skips verification and names an authority.
fn named_authority(cluster: &mut Cluster) -> Result<Option<Named>, String> {
    let data = cluster.certificate_authority_data.take();
    let file = cluster.certificate_authority.take();
    let named = match (data, file) {
        (Some(data), _) => Some(Named::decode(&data)?),
        (None, file) => file.map(|path| Named::File(path.into())),
    };
    if named.is_some() && cluster.insecure_skip_tls_verify == Some(true) {
        return Err(
            "specifying a root certificates file with the insecure flag is not allowed: remove the \
             certificate authority or insecure-skip-tls-verify from the cluster"
                .to_owned(),
        );
    }
    Ok(named)
}

/// Makes the verifier from `named`, and passes the authority to an exec plugin that asked for it.
fn with_authority(
    config: &mut Config,
    named: Option<Named>,
) -> Result<Option<Arc<Authority>>, String> {
    // No other authorities count then: the system's may not even exist.
    if named.is_some() || config.accept_invalid_certs {
        config.root_cert = Some(Vec::new());
    }
    let Some(named) = named else { return Ok(None) };
    let plugin = config.auth_info.exec.as_mut();
    if let Some(told) = plugin.and_then(|plugin| plugin.cluster.as_mut()) {
        told.certificate_authority_data = Some(named.read()?);
    }
    Ok(Some(Arc::new(Authority::new(named)?)))
}

fn kubeconfig(options: &Options) -> Result<Kubeconfig, ConnectError> {
    match &options.source {
        Source::File { path, server, .. } => {
            let mut file = match &options.kubeconfig {
                Some(file) => file.clone(),
                None => files::read(path).map_err(|problem| options.error(problem))?,
            };
            if file.current_context.is_none() && server.is_none() {
                let problem = "no current-context; choose one with kubectl config use-context, or check that this is a kubeconfig";
                return Err(options.error(problem.to_owned()));
            }
            override_server(&mut file, server.as_deref());
            Ok(file)
        }
        Source::Server(url) => Ok(synthetic(source::with_scheme(url, false), None)),
        Source::Cluster { server } => {
            let token = options.service_account.join("token");
            // Read again for each use, since kubelet replaces it about hourly; checked now so that a pod
            // without a service account fails at the start.
            if let Err(error) = std::fs::metadata(&token) {
                let problem = format!(
                    "{}: {error}; is automountServiceAccountToken switched off?",
                    token.display()
                );
                return Err(options.error(problem));
            }
            Ok(synthetic(server.clone(), Some(&options.service_account)))
        }
    }
}

/// A kubeconfig for one server, with a pod's credentials from a directory.
fn synthetic(server: String, credentials: Option<&Path>) -> Kubeconfig {
    let name = "default".to_owned();
    let file = |name: &str| credentials.map(|directory| directory.join(name).display().to_string());
    let cluster = Cluster {
        server: Some(server),
        certificate_authority: file("ca.crt"),
        ..Cluster::default()
    };
    let user = AuthInfo {
        token_file: file("token"),
        ..AuthInfo::default()
    };
    let context = Context {
        cluster: name.clone(),
        user: Some(name.clone()),
        ..Context::default()
    };
    Kubeconfig {
        clusters: vec![NamedCluster {
            name: name.clone(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name.clone(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name.clone(),
            context: Some(context),
            ..NamedContext::default()
        }],
        current_context: Some(name),
        ..Kubeconfig::default()
    }
}

/// The problem of a kubeconfig. The library's own message quotes the file, tokens included.
fn explain(error: &KubeconfigError) -> String {
    if let KubeconfigError::Parse(error) = error {
        let line = error.location().map(|location| location.line());
        let at = line
            .map(|line| format!(" (line {line})"))
            .unwrap_or_default();
        return format!("this is not a kubeconfig in YAML or JSON{at}");
    }
    if let KubeconfigError::ReadConfig(error, _) = error {
        return error.to_string();
    }
    Chain(error).to_string()
}

/// Why no client can be made with these credentials.
fn explain_client(error: &::kube::Error) -> String {
    if let ::kube::Error::RustlsTls(RustlsTlsError::InvalidPrivateKey(_)) = error {
        let advice = "the user's client-key must be ECDSA on P-256 or P-384, Ed25519, or RSA of 2048 bits and more";
        return format!("{}; {advice}", Chain(error));
    }
    let plugin = if let ::kube::Error::Auth(error) = error {
        stack::plugin_failure(error)
    } else {
        None
    };
    plugin.unwrap_or_else(|| Chain(error).to_string())
}

#[cfg(test)]
mod tests;
