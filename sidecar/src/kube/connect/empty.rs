//! Empty fields of a kubeconfig: client-go treats them as absent, and so do we.

use std::path::Path;

use ::kube::config::{AuthInfo, Cluster, Kubeconfig};
use secrecy::{ExposeSecret as _, SecretString};

/// Removes each empty field of clusters, users and contexts. `directory` is the file's, which the library
/// has already prepended to relative paths, empty ones too.
pub(super) fn forget_empty(file: &mut Kubeconfig, directory: Option<&Path>) {
    let directory = directory.map(|directory| directory.join(""));
    let path = |field: &mut Option<String>| {
        field.take_if(|path| path.is_empty() || directory.as_deref() == Some(Path::new(path)));
    };
    for cluster in file
        .clusters
        .iter_mut()
        .filter_map(|named| named.cluster.as_mut())
    {
        let Cluster {
            server,
            certificate_authority,
            certificate_authority_data,
            proxy_url,
            tls_server_name,
            ..
        } = cluster;
        path(certificate_authority);
        for field in [
            server,
            certificate_authority_data,
            proxy_url,
            tls_server_name,
        ] {
            text(field);
        }
    }
    for user in file
        .auth_infos
        .iter_mut()
        .filter_map(|named| named.auth_info.as_mut())
    {
        let AuthInfo {
            username,
            password,
            token,
            token_file,
            client_certificate,
            client_certificate_data,
            client_key,
            client_key_data,
            impersonate,
            impersonate_uid,
            ..
        } = user;
        for field in [token_file, client_certificate, client_key] {
            path(field);
        }
        for field in [
            username,
            client_certificate_data,
            impersonate,
            impersonate_uid,
        ] {
            text(field);
        }
        for field in [password, token, client_key_data] {
            secret(field);
        }
    }
    for context in file
        .contexts
        .iter_mut()
        .filter_map(|named| named.context.as_mut())
    {
        text(&mut context.user);
        text(&mut context.namespace);
    }
    text(&mut file.current_context);
}

fn text(field: &mut Option<String>) {
    field.take_if(|text| text.is_empty());
}

fn secret(field: &mut Option<SecretString>) {
    field.take_if(|secret| secret.expose_secret().is_empty());
}
