//! Handles one request: faults first, then permission, then the verb.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use super::access;
use super::fault::{Action, Answer};
use super::list::{list, trimmed};
use super::record::{Peer, Request};
use super::refusal::Refusal;
use super::route::{Route, Target, route};
use super::store::Key;
use super::watch::{self, Bend};
use super::write::{Deleted, now};
use super::{Body, Broken, FakeApi};

type Answered = Result<Response<Body>, Broken>;

impl FakeApi {
    /// Handles one request; `Err` means a broken connection.
    pub(super) async fn answer(
        &self,
        parts: &http::request::Parts,
        peer: &Peer,
        body: Bytes,
    ) -> Answered {
        let (request, actions) = {
            let inner = &mut *self.lock();
            let number = inner.forgotten + inner.requests.len();
            let request = Request::new(number, parts, peer, &body);
            inner.requests.push(request.clone());
            (request.clone(), inner.faults.actions(&request))
        };
        self.changes.send_modify(|count| *count += 1);
        let mut bend = Bend::default();
        let (mut lose, mut late) = (false, None);
        for action in actions {
            match action {
                Action::Nothing => {}
                Action::Delay(by) => tokio::time::sleep(by).await,
                Action::Hold(gate) => gate.pass().await,
                Action::Hang => std::future::pending().await,
                Action::Drop => return Err(Broken),
                Action::LoseReply => lose = true,
                Action::LateReply(by) => late = Some(by),
                Action::CutWatch(after) => bend.cut_after = Some(after),
                Action::ExpireWatch => bend.expired = true,
                Action::Answer(answer) => return Ok(self.finish(&request, canned(&answer))),
            }
        }
        if self.lock().down {
            return Err(Broken);
        }
        let response = self
            .dispatch(&request, &body, &bend)
            .unwrap_or_else(|refusal| refused(&refusal));
        if lose {
            return Err(Broken);
        }
        if let Some(by) = late {
            self.changes.send_modify(|count| *count += 1);
            tokio::time::sleep(by).await;
        }
        Ok(self.finish(&request, response))
    }

    fn finish(&self, request: &Request, response: Response<Body>) -> Response<Body> {
        let inner = &mut *self.lock();
        let index = request.number.checked_sub(inner.forgotten);
        if let Some(record) = index.and_then(|index| inner.requests.get_mut(index)) {
            record.status = Some(response.status().as_u16());
        }
        response
    }

    fn dispatch(
        &self,
        request: &Request,
        body: &[u8],
        bend: &Bend,
    ) -> Result<Response<Body>, Refusal> {
        self.lock().access.authenticate(&request.authorization)?;
        let found = route(&self.lock().kinds, &request.path);
        match found {
            Route::Resource(target) => {
                let verb = access::verb(&request.method, &target, request.is_watch());
                self.lock().access.check(verb, &target)?;
                if verb == "watch" {
                    let stream = watch::open(self, &target, &request.query, &request.accept, bend)?;
                    return Ok(respond(200, stream));
                }
                let (code, value) = self.resource(verb, &target, request, body)?;
                Ok(reply(code, &trimmed(&request.accept, value)))
            }
            Route::Groups => Ok(reply(200, &self.groups(&request.path))),
            Route::Resources { group, version } => self
                .resources(&group, &version)
                .map(|value| reply(200, &value))
                .ok_or_else(Refusal::no_such_resource),
            Route::Version => Ok(reply(
                200,
                &json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "",
                    "gitTreeState": "clean", "buildDate": "", "goVersion": "", "compiler": "",
                    "platform": ""}),
            )),
            Route::Health => Ok(respond(200, full("ok"))),
            Route::Unknown => Err(Refusal::no_such_resource()),
        }
    }

    fn resource(
        &self,
        verb: &str,
        target: &Target,
        request: &Request,
        body: &[u8],
    ) -> Result<(u16, Value), Refusal> {
        let inner = &mut *self.lock();
        let before = inner.store.version();
        match target.kind.kind.as_str() {
            "SelfSubjectAccessReview" => return Ok((201, inner.access.review(parse(body)?))),
            "SubjectAccessReview" => return Ok((201, inner.access.review_user(parse(body)?))),
            "TokenReview" => return Ok((201, inner.access.review_token(parse(body)?))),
            _ => {}
        }
        let answer = match (verb, target.subresource.as_deref()) {
            ("create", Some("token")) => token(target, &parse(body)?),
            ("get", _) => {
                let name = target.name.as_deref().unwrap_or_default();
                let key = Key::new(&target.kind, &target.namespace, name);
                let object = inner.store.find(&key);
                let object = object.ok_or_else(|| Refusal::not_found(&target.kind, name))?;
                Ok((200, (**object).clone()))
            }
            ("list", _) => Ok((200, list(&inner.store, target, &request.query)?)),
            ("create", None) => Ok((201, (*inner.store.create(target, parse(body)?)?).clone())),
            ("update", None | Some("status")) => {
                Ok((200, (*inner.store.update(target, parse(body)?)?).clone()))
            }
            ("patch", None | Some("status")) => {
                let patched = inner.store.patch(target, &request.content_type, body)?;
                Ok((200, (*patched).clone()))
            }
            ("delete", None) => {
                let options = if body.is_empty() {
                    Value::Null
                } else {
                    parse(body)?
                };
                Ok((200, deleted(target, inner.store.delete(target, &options)?)))
            }
            _ => Err(Refusal::new(
                405,
                "the server does not allow this method on the requested resource",
            )),
        };
        if inner.store.version() != before {
            self.changes.send_modify(|count| *count += 1);
        }
        let (code, mut value) = answer?;
        target.kind.show(&mut value);
        Ok((code, value))
    }

    fn groups(&self, path: &str) -> Value {
        if path.starts_with("/api/") || path == "/api" {
            return json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []});
        }
        let inner = self.lock();
        let mut names: Vec<(&str, &str)> = inner
            .kinds
            .iter()
            .filter(|kind| !kind.group.is_empty())
            .flat_map(|kind| {
                let versions = kind.versions();
                versions.map(|version| (kind.group.as_str(), version))
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        let groups: Vec<Value> = names
            .into_iter()
            .map(|(group, version)| {
                let entry =
                    json!({"groupVersion": format!("{group}/{version}"), "version": version});
                json!({"name": group, "versions": [entry], "preferredVersion": entry})
            })
            .collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let inner = self.lock();
        let resources: Vec<Value> = inner
            .kinds
            .iter()
            .filter(|kind| kind.group == group && kind.versions().any(|one| one == version))
            .map(|kind| {
                json!({"name": kind.resource, "singularName": kind.kind.to_lowercase(),
                    "namespaced": kind.namespaced, "kind": kind.kind,
                    "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]})
            })
            .collect();
        if resources.is_empty() {
            return None;
        }
        let name = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        Some(
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}),
        )
    }
}

fn parse(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::new(400, format!("the object provided is unrecognized: {error}")))
}

/// The response is a `Status` for an object that is gone, the object itself if it waits for
/// finalizers.
fn deleted(target: &Target, deleted: Deleted) -> Value {
    match deleted {
        Deleted::Marked(object) => (*object).clone(),
        Deleted::Gone(last) => json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": target.name, "group": target.kind.group,
                "kind": target.kind.resource, "uid": last["metadata"]["uid"]},
        }),
    }
}

fn token(target: &Target, asked: &Value) -> Result<(u16, Value), Refusal> {
    let account = target.name.as_deref().unwrap_or_default();
    let seconds = asked["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    let mut answer = asked.clone();
    answer["status"] = json!({
        "token": format!("token-of-{}-{account}", target.namespace),
        "expirationTimestamp": until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    answer["metadata"] =
        json!({"name": account, "namespace": target.namespace, "creationTimestamp": now()});
    Ok((201, answer))
}

fn canned(answer: &Answer) -> Response<Body> {
    let mut response = match &answer.raw {
        Some(raw) => respond(answer.status, full(raw.clone())),
        None => refused(&Refusal::new(answer.status, answer.message.clone())),
    };
    if let Some(seconds) = answer.retry_after {
        response
            .headers_mut()
            .insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

fn refused(refusal: &Refusal) -> Response<Body> {
    reply(refusal.code, &refusal.body())
}

fn reply(code: u16, value: &Value) -> Response<Body> {
    respond(code, full(value.to_string()))
}

fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn respond(code: u16, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).expect("a fault answers with an HTTP status");
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}
