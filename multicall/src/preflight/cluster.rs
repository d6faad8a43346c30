//! The input from an API server: workloads, the ConfigMaps that their variables refer to, and roles; where roles must
//! not be listed, access reviews of the accounts. It never reads Secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use http::{Request, header};
use kube::Client;
use serde_json::{Value, json};
use sidecar::error::Chain;
use sidecar::kube::access::Rule;
use sidecar::kube::connect::{NamedBy, Options, ProxyEnvironment, Source, connect, in_cluster};
use sidecar::kube::rate::Rate;
use sidecar::rt::Exit;

use super::Reviews;
use super::args::{What, minor};
use super::container::{containers, template};
use super::election;
use super::flags;
use super::input::{Input, Roles, configured, list, text};
use super::roles::{Account, Named, Question, key};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Pages of 500 objects: no cluster has as many roles or workloads.
const MOST_PAGES: usize = 1_000;

/// Why a request has no answer.
enum Refusal {
    /// 403 or 404: forbidden, or absent.
    Not,
    Error(String),
}

struct Server {
    client: Client,
}

impl Server {
    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> Result<Value, Refusal> {
        let request = request
            .body(body)
            .map_err(|error| Refusal::Error(error.to_string()))?;
        match self.client.request_text(request).await {
            Ok(text) => {
                serde_json::from_str(&text).map_err(|error| Refusal::Error(error.to_string()))
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Err(Refusal::Not),
            Err(error) => Err(Refusal::Error(Chain(&error).to_string())),
        }
    }

    async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.send(Request::get(path), Vec::new()).await
    }

    /// A complete list; `None` if listing is forbidden.
    async fn list(&self, path: &str) -> Result<Option<Vec<Value>>, Exit> {
        let (mut all, mut next) = (Vec::new(), String::new());
        for _ in 0..MOST_PAGES {
            let page = match self.get(&format!("{path}?limit=500{next}")).await {
                Ok(page) => page,
                Err(Refusal::Not) => return Ok(None),
                Err(Refusal::Error(error)) => return Err(silent(&error)),
            };
            let of_list = text(&page, "/kind").trim_end_matches("List").to_owned();
            for mut item in list(&page, "/items").iter().cloned() {
                if let Some(object) = item.as_object_mut() {
                    object.insert("kind".to_owned(), Value::from(&*of_list));
                }
                all.push(item);
            }
            match text(&page, "/metadata/continue") {
                "" => return Ok(Some(all)),
                token => {
                    next = format!(
                        "&continue={}",
                        token.replace('+', "%2B").replace('=', "%3D")
                    )
                }
            }
        }
        Err(Exit::failure(
            1,
            format!("{path}: the API server's list has no end after {MOST_PAGES} pages"),
        ))
    }
}

fn silent(error: &str) -> Exit {
    Exit::failure(1, format!("the API server does not answer: {error}"))
}

async fn server(kubeconfig: &str) -> Result<Server, Exit> {
    let read = |name: &str| std::env::var(name).ok();
    let home = || read("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    let variable = read("KUBECONFIG").filter(|path| !path.is_empty());
    let (path, named_by) = match (kubeconfig, variable) {
        ("", Some(path)) => (Some(PathBuf::from(path)), NamedBy::Variable),
        ("", None) => (home().filter(|path| path.exists()), NamedBy::Home),
        (path, _) => (Some(PathBuf::from(path)), NamedBy::Flag),
    };
    let source = match path {
        Some(path) => Source::File {
            path,
            named_by,
            server: None,
        },
        None => in_cluster(read)?,
    };
    let mut options = Options::new(
        source,
        Rate::Unlimited,
        crate::NAME,
        sidecar::build::VERSION,
    );
    options.proxies = ProxyEnvironment::read(read);
    Ok(Server {
        client: connect(&options, None).await?,
    })
}

/// Reads the workloads to check. Also returns access reviews of the accounts, if roles must not be listed, and the
/// API server's minor version.
///
/// # Errors
/// A workload does not exist, or the API server does not answer.
pub(crate) async fn look(
    kubeconfig: &str,
    namespace: &str,
    what: &What,
) -> Result<(Input, Reviews, Option<u32>), Exit> {
    let server = server(kubeconfig).await?;
    let mut input = Input::default();
    match what {
        What::Workloads(all) => {
            for (resource, name) in all {
                let path = format!("/apis/apps/v1/namespaces/{namespace}/{resource}/{name}");
                match server.get(&path).await {
                    Ok(object) => input.add(object),
                    Err(Refusal::Not) => {
                        return Err(Exit::failure(
                            1,
                            format!(
                                "{resource} {name}: not there, or not to be read; kubectl get {resource} -n {namespace} lists those that are"
                            ),
                        ));
                    }
                    Err(Refusal::Error(error)) => return Err(silent(&error)),
                }
            }
        }
        What::Driver(_) => {
            for resource in ["deployments", "daemonsets", "statefulsets"] {
                let all = server.list(&format!("/apis/apps/v1/{resource}")).await?;
                let all = all.ok_or_else(|| {
                    Exit::failure(1, format!("--driver: {resource} may not be listed in the whole cluster; name the workloads and -n NAMESPACE instead"))
                })?;
                all.into_iter().for_each(|object| input.add(object));
            }
        }
    }
    variables(&server, &mut input).await?;
    input.roles = roles(&server, &mut input).await?;
    let reviews = match input.roles {
        Roles::Whole => Reviews::new(),
        Roles::Given | Roles::Partial => review(&server, &input).await?,
    };
    let version = match server.get("/version").await {
        Ok(version) => minor(text(&version, "/gitVersion")),
        Err(_) => None,
    };
    Ok((input, reviews, version))
}

/// The ConfigMaps that containers take variables from.
async fn variables(server: &Server, input: &mut Input) -> Result<(), Exit> {
    let mut maps = BTreeSet::new();
    for workload in input.workloads() {
        let names = configured(template(workload));
        maps.extend(names.map(|name| (workload.namespace.clone(), name.to_owned())));
    }
    for (namespace, name) in maps {
        match server
            .get(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}"))
            .await
        {
            Ok(map) => input.add(map),
            Err(Refusal::Not) => {}
            Err(Refusal::Error(error)) => return Err(silent(&error)),
        }
    }
    Ok(())
}

/// Roles and bindings, and whether all could be listed.
async fn roles(server: &Server, input: &mut Input) -> Result<Roles, Exit> {
    for resource in [
        "clusterroles",
        "clusterrolebindings",
        "roles",
        "rolebindings",
    ] {
        match server.list(&format!("{RBAC}/{resource}")).await? {
            Some(all) => all.into_iter().for_each(|object| input.add(object)),
            None => return Ok(Roles::Partial),
        }
    }
    Ok(Roles::Whole)
}

/// Reviews every verb of every rule.
async fn review(server: &Server, input: &Input) -> Result<Reviews, Exit> {
    let mut reviews = Reviews::new();
    for workload in input.workloads() {
        let (namespace, name) = Account::name_of(workload);
        let mut answers = BTreeMap::new();
        for (rule, named) in needed(input, workload) {
            for verb in rule.verbs {
                let named = named.as_ref().filter(|_| *verb != "create");
                let object = named.filter(|named| named.whole);
                let object = object.map(|named| &*named.begins).unwrap_or_default();
                let place = rule.namespace.as_deref().unwrap_or_default();
                let (resource, below) =
                    rule.resource.split_once('/').unwrap_or((rule.resource, ""));
                let question = Question {
                    group: rule.group,
                    resource: rule.resource,
                    verb,
                    namespace: place,
                    named,
                };
                let body = json!({
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "spec": {
                        "user": format!("system:serviceaccount:{namespace}:{name}"),
                        "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
                        "resourceAttributes": {
                            "verb": verb, "group": rule.group, "resource": resource, "subresource": below, "namespace": place, "name": object,
                        },
                    },
                });
                let request = Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
                    .header(header::CONTENT_TYPE, "application/json");
                match server.send(request, body.to_string().into_bytes()).await {
                    Ok(answer) => {
                        let allowed = answer.pointer("/status/allowed").and_then(Value::as_bool);
                        let allowed = allowed == Some(true);
                        // Without the driver's name nobody can ask about its Lease: a grant may be for that one alone.
                        if allowed || named.is_none_or(|named| named.whole) {
                            answers.insert(key(question), allowed);
                        }
                    }
                    // Without permission for reviews there are no answers: everything is unknown.
                    Err(Refusal::Not) => return Ok(Reviews::new()),
                    Err(Refusal::Error(error)) => return Err(silent(&error)),
                }
            }
        }
        reviews.insert((namespace, name), answers);
    }
    Ok(reviews)
}

/// The rules that a workload's sidecars need.
fn needed(input: &Input, workload: &super::input::Object) -> Vec<(Rule, Option<Named>)> {
    let mut needed = Vec::new();
    for container in containers(input, workload) {
        let Some(program) = container.program() else {
            continue;
        };
        let Ok((values, read)) = flags::read(program, &container) else {
            continue;
        };
        let rules = read.rules;
        needed.extend(
            rules
                .always
                .into_iter()
                .chain(rules.sometimes)
                .chain(rules.journal)
                .map(|rule| (rule, None)),
        );
        let election = election::rule(&values, workload);
        needed.extend(election.map(|rule| (rule, Some(election::lease(program.lease)))));
    }
    needed
}
