//! Kubeconfig files with kubectl's merge rules: of two entries with the same name the first counts.

use std::path::{Path, PathBuf};

use ::kube::config::{Cluster, Kubeconfig};

use super::{ConnectError, NamedBy, empty, explain, source, synthetic};

/// Reads one file, or returns the problem.
pub(super) fn read(path: &Path) -> Result<Kubeconfig, String> {
    let mut file = Kubeconfig::read_from(path).map_err(|error| explain(&error))?;
    empty::forget_empty(&mut file, path.parent());
    Ok(file)
}

/// Merges the files, for [`super::Options::kubeconfig`].
///
/// # Errors
/// One line that names the file at fault.
pub fn read_files(paths: &[PathBuf], named_by: NamedBy) -> Result<Kubeconfig, ConnectError> {
    let mut all = Kubeconfig::default();
    for path in paths {
        let refused = |problem| ConnectError::File {
            named_by,
            path: path.clone(),
            problem,
        };
        let next = read(path).map_err(refused)?;
        all = { all.merge(next) }.map_err(|error| refused(explain(&error)))?;
    }
    Ok(all)
}

/// Replaces the server of the current context, and completes a URL without scheme.
pub(super) fn override_server(file: &mut Kubeconfig, server: Option<&str>) {
    if file.current_context.is_none()
        && let Some(server) = server
    {
        *file = synthetic(source::with_scheme(server, false), None);
        return;
    }
    if let Some(cluster) = current_cluster(file) {
        let authority =
            cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
        let url = server.or(cluster.server.as_deref());
        cluster.server = url.map(|url| source::with_scheme(url, authority));
    }
}

/// The cluster of the current context.
pub(super) fn current_cluster(file: &mut Kubeconfig) -> Option<&mut Cluster> {
    let current = file.current_context.as_ref()?;
    let context = file
        .contexts
        .iter()
        .find(|context| context.name == *current)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = file
        .clusters
        .iter_mut()
        .find(|cluster| cluster.name == *name)?;
    cluster.cluster.as_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://one"}}]}"#;
    const TWO: &str = r#"{"current-context": "b", "contexts": [{"name": "b", "context": {"cluster": "d", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://two"}}, {"name": "d", "cluster": {"server": "https://three"}}]}"#;

    #[test]
    fn of_two_things_with_one_name_the_first_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths = [file("one", ONE), file("two", TWO)];
        let all = read_files(&paths, NamedBy::Variable).unwrap();
        assert_eq!(all.current_context.as_deref(), Some("a"));
        let clusters: Vec<_> = { all.clusters.iter() }
            .map(|named| (&*named.name, named.cluster.clone().unwrap().server.unwrap()))
            .collect();
        assert_eq!(
            clusters,
            [("c", "https://one".into()), ("d", "https://three".into())]
        );
    }

    #[test]
    fn the_file_at_fault_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broken");
        std::fs::write(&path, "token: [").unwrap();
        let error = read_files(std::slice::from_ref(&path), NamedBy::Variable).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!(
                "KUBECONFIG={}: this is not a kubeconfig",
                path.display()
            )),
            "{text}"
        );
    }
}
