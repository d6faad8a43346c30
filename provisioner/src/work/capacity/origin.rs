//! Resolves the producer of the objects, once at the start.

use serde::Deserialize;
use sidecar::flags::Exit;
use sidecar::kube::api::Api;
use sidecar::kube::interner::Interner;

use crate::args::{self, FATAL};
use crate::plan::capacity::{Met, Next, Owner, Producer, Walk, Wanted, managed_by};
use crate::work::record;

/// Resolves the producer of the objects that `config` requests. `node` is the node of this process in a node
/// deployment.
///
/// # Errors
/// The exit of the process.
pub async fn producer(
    api: &Api,
    config: &args::Capacity,
    driver: &str,
    node: Option<&str>,
) -> Result<Producer, Exit> {
    let owner = match config.owner_level {
        None => None,
        Some(level) => Some(owner(api, config, level).await?),
    };
    Ok(Producer {
        driver: driver.to_owned(),
        managed_by: managed_by(node),
        namespace: config.namespace.clone(),
        owner,
    })
}

async fn owner(api: &Api, config: &args::Capacity, level: u32) -> Result<Owner, Exit> {
    let mut walk = Walk::begin(level, &config.pod_name);
    loop {
        let wanted = walk.wanted();
        let met = read(api, &config.namespace, wanted).await.map_err(|error| {
            let Wanted { kind, name, .. } = wanted;
            let namespace = &config.namespace;
            Exit::failure(
                FATAL,
                format_args!(
                    "--capacity-ownerref-level={level}: cannot read {kind} {namespace}/{name}: {error}"
                ),
            )
        })?;
        let next = walk.next(&met);
        match next.map_err(|error| Exit::failure(FATAL, error))? {
            Next::Found(owner) => return Ok(owner),
            Next::Read(on) => walk = on,
        }
    }
}

async fn read(api: &Api, namespace: &str, wanted: &Wanted) -> Result<Met, String> {
    let base = match wanted.api_version.split('/').collect::<Vec<_>>()[..] {
        [version] if is_segment(version) => format!("/api/{version}"),
        [group, version] if is_segment(group) && is_segment(version) => {
            format!("/apis/{group}/{version}")
        }
        _ => {
            return Err(format!(
                "apiVersion {:?} cannot be used",
                wanted.api_version
            ));
        }
    };
    if !is_segment(&wanted.name) || !is_segment(namespace) {
        return Err("it is no object name".to_owned());
    }
    let plural = plural(api, &base, wanted).await?;
    let name = &wanted.name;
    let path = format!("{base}/namespaces/{namespace}/{plural}/{name}");
    let json = api.read(&path).await.map_err(|error| error.to_string())?;
    let owned = record::read_owned(&json, &Interner::default());
    let (uid, owners) = owned.map_err(|error| error.to_string())?;
    Ok(Met { uid, owners })
}

/// The plural name of a kind in paths: those of Kubernetes' own kinds are built in, others are read from the API
/// server.
async fn plural(api: &Api, base: &str, wanted: &Wanted) -> Result<String, String> {
    let known = match (&*wanted.api_version, &*wanted.kind) {
        ("v1", "Pod") => Some("pods"),
        ("apps/v1", "ReplicaSet") => Some("replicasets"),
        ("apps/v1", "Deployment") => Some("deployments"),
        ("apps/v1", "StatefulSet") => Some("statefulsets"),
        ("apps/v1", "DaemonSet") => Some("daemonsets"),
        (_, _) => None,
    };
    if let Some(known) = known {
        return Ok(known.to_owned());
    }
    let list = api.read(base).await.map_err(|error| error.to_string())?;
    find_plural(&list, &wanted.kind).ok_or_else(|| format!("{base} has no kind {:?}", wanted.kind))
}

fn find_plural(list: &str, kind: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct List {
        resources: Vec<Listed>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Listed {
        name: String,
        kind: String,
    }
    let list: List = serde_json::from_str(list).ok()?;
    let mut resources = list.resources.into_iter();
    // Names of subresources contain a slash.
    let found = resources.find(|listed| listed.kind == kind && is_segment(&listed.name));
    found.map(|listed| listed.name)
}

/// Whether the text can be a segment of a path without escaping.
fn is_segment(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    !text.is_empty() && text.bytes().all(plain) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_get_into_a_path() {
        for good in ["pod-0", "apps", "v1", "system:x", "a.b"] {
            assert!(is_segment(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a?b", "a%2fb", "a b", "ä", "a#"] {
            assert!(!is_segment(bad), "{bad}");
        }
    }

    #[test]
    fn subresources_are_not_the_kind() {
        let list = r#"{"resources":[{"name":"rollouts/status","kind":"Rollout"},
            {"name":"rollouts","kind":"Rollout"},{}]}"#;
        assert_eq!(find_plural(list, "Rollout").as_deref(), Some("rollouts"));
        assert_eq!(find_plural(list, "Other"), None);
        assert_eq!(find_plural("nothing", "Rollout"), None);
    }
}
