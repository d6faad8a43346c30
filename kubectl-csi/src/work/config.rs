//! Selects the API server and the credentials: kubectl's flags and files.

use std::path::PathBuf;

use kube::config::{
    AuthInfo, Cluster, Context, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use sidecar::kube::connect::{
    ConnectError, NamedBy, Options, ProxyEnvironment, Source, in_cluster, read_files,
};
use sidecar::kube::rate::Rate;

/// kubectl's access flags; an empty one was not given.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub kubeconfig: String,
    pub context: String,
    pub cluster: String,
    pub user: String,
    pub server: String,
    pub token: String,
    pub certificate_authority: String,
    pub client_certificate: String,
    pub client_key: String,
    pub tls_server_name: String,
    pub insecure: bool,
    pub as_user: String,
    pub as_uid: String,
    pub as_groups: Vec<String>,
    pub timeout: Option<std::time::Duration>,
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The kubeconfig files, and what names them; without any, this may be a pod.
fn files(access: &Access) -> (Vec<PathBuf>, NamedBy) {
    if !access.kubeconfig.is_empty() {
        return (vec![PathBuf::from(&access.kubeconfig)], NamedBy::Flag);
    }
    if let Some(list) = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        // Like kubectl, it skips files that do not exist.
        let paths = std::env::split_paths(&list).filter(|path| path.exists());
        return (paths.collect(), NamedBy::Variable);
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    (
        home.into_iter().filter(|path| path.exists()).collect(),
        NamedBy::Home,
    )
}

/// A client, and the namespace that the context names.
///
/// # Errors
/// One line that names the flag or file at fault and the remedy.
pub async fn connect(access: &Access) -> Result<kube::Client, ConnectError> {
    let (paths, named_by) = files(access);
    let read = |name: &str| std::env::var(name).ok();
    let source = match paths.first() {
        Some(path) => Source::File {
            path: path.clone(),
            named_by,
            server: None,
        },
        None if !access.server.is_empty() => Source::Server(access.server.clone()),
        None => in_cluster(read)?,
    };
    let mut options = Options::new(
        source,
        Rate::Unlimited,
        "kubectl-csi",
        sidecar::build::VERSION,
    );
    options.proxies = ProxyEnvironment::read(read);
    options.timeout = access.timeout.unwrap_or(options.timeout);
    if !paths.is_empty() {
        let mut file = read_files(&paths, named_by)?;
        choose(&mut file, access).map_err(|problem| ConnectError::File {
            named_by,
            path: paths.first().cloned().unwrap_or_default(),
            problem,
        })?;
        options.kubeconfig = Some(file);
    }
    sidecar::kube::connect::connect(&options, None).await
}

/// Applies the command line to the kubeconfig: in a context of its own, so that nothing else in the file changes.
#[expect(clippy::too_many_lines, reason = "one flag after the other")]
fn choose(file: &mut Kubeconfig, access: &Access) -> Result<(), String> {
    const OWN: &str = "kubectl-csi";
    let current = given(&access.context).or(file.current_context.clone());
    let found = current
        .as_ref()
        .and_then(|name| file.contexts.iter().find(|one| one.name == *name));
    if let (Some(name), None) = (given(&access.context), found) {
        let names: Vec<_> = file.contexts.iter().map(|one| &*one.name).collect();
        let near = crate::plan::nearest(&name, names.iter().copied());
        return Err(format!(
            "--context={name}: there is no such context{}",
            near.map(|near| format!("; did you mean {near}?"))
                .unwrap_or_default()
        ));
    }
    let mut context: Context = found
        .and_then(|one| one.context.clone())
        .unwrap_or_default();
    if let Some(cluster) = given(&access.cluster) {
        context.cluster = cluster;
    }
    if let Some(user) = given(&access.user) {
        context.user = Some(user);
    }
    let known = file.clusters.iter().find(|one| one.name == context.cluster);
    if let (Some(name), None) = (given(&access.cluster), known) {
        return Err(format!("--cluster={name}: there is no such cluster"));
    }
    let mut cluster: Cluster = known
        .and_then(|one| one.cluster.clone())
        .unwrap_or_default();
    let user = context.user.clone().unwrap_or_default();
    let known = file.auth_infos.iter().find(|one| one.name == user);
    if let (Some(name), None) = (given(&access.user), known) {
        return Err(format!("--user={name}: there is no such user"));
    }
    let mut auth: AuthInfo = known
        .and_then(|one| one.auth_info.clone())
        .unwrap_or_default();
    if let Some(server) = given(&access.server) {
        cluster.server = Some(server);
    }
    if let Some(authority) = given(&access.certificate_authority) {
        cluster.certificate_authority = Some(authority);
        cluster.certificate_authority_data = None;
    }
    if access.insecure {
        cluster.insecure_skip_tls_verify = Some(true);
        cluster.certificate_authority = None;
        cluster.certificate_authority_data = None;
    }
    cluster.tls_server_name = given(&access.tls_server_name).or(cluster.tls_server_name);
    if let Some(token) = given(&access.token) {
        auth = AuthInfo {
            token: Some(token.into()),
            ..AuthInfo::default()
        };
    }
    if let Some(certificate) = given(&access.client_certificate) {
        auth.client_certificate = Some(certificate);
        auth.client_certificate_data = None;
    }
    if let Some(key) = given(&access.client_key) {
        auth.client_key = Some(key);
        auth.client_key_data = None;
    }
    auth.impersonate = given(&access.as_user).or(auth.impersonate);
    auth.impersonate_uid = given(&access.as_uid).or(auth.impersonate_uid);
    if !access.as_groups.is_empty() {
        auth.impersonate_groups = Some(access.as_groups.clone());
    }
    if context.cluster.is_empty() && cluster.server.is_none() {
        return Err(
            "no current-context; choose one with --context or kubectl config use-context"
                .to_owned(),
        );
    }
    context.cluster = OWN.to_owned();
    context.user = Some(OWN.to_owned());
    file.clusters = vec![NamedCluster {
        name: OWN.to_owned(),
        cluster: Some(cluster),
        ..NamedCluster::default()
    }];
    file.auth_infos = vec![NamedAuthInfo {
        name: OWN.to_owned(),
        auth_info: Some(auth),
        ..NamedAuthInfo::default()
    }];
    file.contexts = vec![NamedContext {
        name: OWN.to_owned(),
        context: Some(context),
        ..NamedContext::default()
    }];
    file.current_context = Some(OWN.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(access: &Access) -> Result<(String, String, Option<String>), String> {
        let text = r#"{"current-context":"a","contexts":[
            {"name":"a","context":{"cluster":"one","user":"u","namespace":"shop"}},
            {"name":"b","context":{"cluster":"two","user":"u"}}],
            "clusters":[{"name":"one","cluster":{"server":"https://one"}},{"name":"two","cluster":{"server":"https://two"}}],
            "users":[{"name":"u","user":{"token":"t"}}]}"#;
        let mut file = Kubeconfig::from_yaml(text).unwrap();
        choose(&mut file, access)?;
        let cluster = file.clusters[0].cluster.clone().unwrap();
        let context = file.contexts[0].context.clone().unwrap();
        let auth = file.auth_infos[0].auth_info.clone().unwrap();
        Ok((
            cluster.server.unwrap(),
            context.namespace.unwrap_or_default(),
            auth.impersonate,
        ))
    }

    #[test]
    fn w_37_kubectls_flags_choose() {
        let own = |text: &str| text.to_owned();
        let none = Access::default();
        assert_eq!(chosen(&none), Ok((own("https://one"), own("shop"), None)));
        let context = Access {
            context: own("b"),
            ..Access::default()
        };
        assert_eq!(chosen(&context), Ok((own("https://two"), own(""), None)));
        let other = Access {
            cluster: own("two"),
            as_user: own("jane"),
            ..Access::default()
        };
        assert_eq!(
            chosen(&other),
            Ok((own("https://two"), own("shop"), Some(own("jane"))))
        );
        let server = Access {
            server: own("https://three"),
            ..Access::default()
        };
        assert_eq!(chosen(&server).unwrap().0, "https://three");
        for (access, said) in [
            (
                Access {
                    context: own("c"),
                    ..Access::default()
                },
                "--context=c: there is no such context",
            ),
            (
                Access {
                    cluster: own("c"),
                    ..Access::default()
                },
                "--cluster=c: there is no such cluster",
            ),
            (
                Access {
                    user: own("c"),
                    ..Access::default()
                },
                "--user=c: there is no such user",
            ),
        ] {
            assert!(chosen(&access).unwrap_err().starts_with(said));
        }
    }
}
