//! One intent: the requests of a claim, in a durable form.
//!
//! The form is a contract between versions of the program, and it determines the size of a request: with topology per
//! node nearly all of it are the terms, which are the same for all claims of one moment and are stored once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::annotation::Annotation;
use super::object::{INTENT, TERMS as TERMS_PREFIX};
use crate::model::{Claim, ClaimPhase, DataSource, Text};
use crate::plan::in_flight::Asked;
use crate::plan::request::PinnedRequest;

/// Path of the topology terms in a request.
const TERMS: &str = "/requirement/terms";

/// The CreateVolume requests of a claim, and its data source. Contains no values of Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The current request: about to be sent, or its last call had no answer.
    pub asked: Option<Arc<PinnedRequest>>,
    /// Requests whose call had no answer, and that the driver refused since: they may have made a volume all the same.
    pub unsettled: Vec<Arc<PinnedRequest>>,
    /// `spec.dataSource` of the claim; the source stays protected while the call may run.
    pub source: Option<DataSource>,
    /// `spec.dataSourceRef` of the claim.
    pub source_ref: Option<DataSource>,
}

/// Consequence of an earlier process's intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Its PersistentVolume exists: it is settled.
    Settled,
    /// A PersistentVolume of its name exists, and may come from another call: it is compared when the claim needs no
    /// volume any more.
    Compared,
    /// The call is repeated until the driver gives a final answer, whatever has become of the claim. A volume that the
    /// driver returns gets its PersistentVolume, which is deleted with it if nobody wants it.
    Resumed,
}

/// An intent, encoded as annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) text: Arc<Annotation>,
    /// Terms that other intents may share; `text` has their names.
    pub(super) terms: Vec<Arc<Annotation>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "is_first")]
    order: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prepared: Option<Value>,
    #[serde(rename = "owed", default, skip_serializing_if = "Vec::is_empty")]
    unsettled: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<WrittenSource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_ref: Option<WrittenSource>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSource {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    kind: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

impl WrittenSource {
    fn of(source: &DataSource) -> Self {
        let text = |text: &Option<Text>| text.as_ref().map(Text::to_string);
        Self {
            group: text(&source.group),
            kind: source.kind.to_string(),
            name: source.name.to_string(),
            namespace: text(&source.namespace),
        }
    }

    fn read(self) -> DataSource {
        DataSource {
            group: self.group.map(Text::from),
            kind: self.kind.into(),
            name: self.name.into(),
            namespace: self.namespace.map(Text::from),
        }
    }
}

impl Intent {
    /// The intent to send `prepared` for `claim`.
    #[must_use]
    pub fn new(claim: &Claim, prepared: &Arc<PinnedRequest>) -> Self {
        Self::with_unsettled(claim, Some(Arc::clone(prepared)), Vec::new())
    }

    /// The intent for `claim`: the current request and the unsettled ones.
    #[must_use]
    pub fn with_unsettled(
        claim: &Claim,
        asked: Option<Arc<PinnedRequest>>,
        unsettled: Vec<Arc<PinnedRequest>>,
    ) -> Self {
        Self {
            asked,
            unsettled,
            source: claim.data_source.clone(),
            source_ref: claim.data_source_ref.clone(),
        }
    }

    /// The current request and the unsettled ones.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Arc<PinnedRequest>> {
        self.asked.iter().chain(&self.unsettled)
    }

    /// `metadata.uid` of the claim.
    #[must_use]
    pub fn uid(&self) -> &str {
        let first = self.requests().next();
        first.map_or("", |prepared| &prepared.pv_template.claim.uid)
    }

    /// Name of the PersistentVolume of the current request.
    #[must_use]
    pub fn name(&self) -> &str {
        let first = self.requests().next();
        first.map_or("", |prepared| &prepared.name)
    }

    /// The claim, with the fields that the process needs after the claim is gone.
    #[must_use]
    pub fn claim(&self) -> Claim {
        let Some(prepared) = self.requests().next() else {
            // Unreachable: an intent is made for a request, and one without is not read.
            return Claim::default();
        };
        let pv_template = &prepared.pv_template;
        let text = |text: &String| Text::from(text.as_str());
        Claim {
            namespace: text(&pv_template.claim.namespace),
            name: text(&pv_template.claim.name),
            uid: text(&pv_template.claim.uid),
            class: Some(text(&pv_template.class)),
            data_source: self.source.clone(),
            data_source_ref: self.source_ref.clone(),
            phase: ClaimPhase::Pending,
            ..Claim::default()
        }
    }

    /// The consequence of an earlier process's intent, once claims and volumes are known. `alone` tells whether no
    /// other provisioner makes volumes of the same names.
    #[must_use]
    pub fn recovery(&self, volume_exists: bool, alone: bool) -> Recovery {
        match (volume_exists, alone && self.unsettled.is_empty()) {
            (true, true) => Recovery::Settled,
            (true, false) => Recovery::Compared,
            (false, _) => Recovery::Resumed,
        }
    }

    /// Name of its annotation.
    pub(super) fn annotation(&self) -> String {
        name_of(self.uid())
    }

    /// Whether it has no request.
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_none() && self.unsettled.is_empty()
    }

    /// Whether it has a request for the same volume, word for word.
    pub(super) fn asks(&self, asked: &PinnedRequest) -> bool {
        self.requests().any(|held| held.asks_the_same(asked))
    }

    /// Whether it has this request.
    pub(super) fn has(&self, asked: &Arc<PinnedRequest>) -> bool {
        self.requests().any(|held| held == asked)
    }

    /// This intent, with all requests of `other` added as unsettled.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for asked in other.requests() {
            if !both.has(asked) {
                both.unsettled.push(Arc::clone(asked));
            }
        }
        both
    }

    /// The durable form. Of several entries of a claim, the one with the greatest `order` has the current request.
    pub(super) fn encode(&self, order: u64) -> Encoded {
        let mut shared = Vec::new();
        // Neither fails: all keys are strings. A text without a request counts as unreadable.
        let mut write = |prepared: &Arc<PinnedRequest>| {
            let mut prepared = serde_json::to_value(&**prepared).unwrap_or_default();
            if let Some(field) = prepared.pointer_mut(TERMS) {
                let terms = field.take().to_string();
                let name = format!("{:016x}", fnv1a(&terms));
                *field = name.as_str().into();
                shared.push(Annotation::new(format!("{TERMS_PREFIX}{name}"), terms));
            }
            prepared
        };
        let written = Written {
            order,
            prepared: self.asked.as_ref().map(&mut write),
            unsettled: self.unsettled.iter().map(&mut write).collect(),
            source: self.source.as_ref().map(WrittenSource::of),
            source_ref: self.source_ref.as_ref().map(WrittenSource::of),
        };
        let text = serde_json::to_string(&written).unwrap_or_default();
        Encoded {
            text: Annotation::new(self.annotation(), text),
            terms: shared,
        }
    }

    /// Decodes the result of [`encode`](Self::encode), with its order; `shared` returns the terms of a name.
    pub(super) fn decode<'a>(
        text: &str,
        shared: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<(Self, u64), String> {
        let damaged = |error: serde_json::Error| format!("it is damaged: {error}");
        let read = |mut written: Value| {
            if let Some(field) = written.pointer_mut(TERMS) {
                let name = field.as_str().unwrap_or_default();
                let terms =
                    shared(name).ok_or_else(|| format!("its topology {name} is missing"))?;
                *field = serde_json::from_str(terms).map_err(damaged)?;
            }
            let prepared: PinnedRequest = serde_json::from_value(written).map_err(damaged)?;
            Ok::<_, String>(Arc::new(prepared))
        };
        let written: Written = serde_json::from_str(text).map_err(damaged)?;
        let order = written.order;
        let intent = Self {
            asked: written.prepared.map(&read).transpose()?,
            unsettled: { written.unsettled.into_iter() }
                .map(&read)
                .collect::<Result<_, _>>()?,
            source: written.source.map(WrittenSource::read),
            source_ref: written.source_ref.map(WrittenSource::read),
        };
        let names = |prepared: &Arc<PinnedRequest>| {
            let claim = &prepared.pv_template.claim;
            let named = [&prepared.name, &claim.uid, &claim.namespace, &claim.name];
            *claim.uid == *intent.uid() && named.iter().all(|name| !name.is_empty())
        };
        if intent.requests().next().is_some() && intent.requests().all(names) {
            Ok((intent, order))
        } else {
            Err("it does not say for which claim it is".to_owned())
        }
    }
}

/// The `order` of [`Intent::encode`], from a text that cannot be read otherwise.
pub(super) fn order_of(text: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Ordered {
        #[serde(default)]
        order: u64,
    }
    let ordered: Result<Ordered, _> = serde_json::from_str(text);
    ordered.ok().map(|ordered| ordered.order)
}

fn is_first(order: &u64) -> bool {
    *order == 0
}

/// Name of the annotation for a claim. The API server's UIDs can be part of one; any other UID is replaced by its hash.
pub(super) fn name_of(uid: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = uid.as_bytes();
    let fits = bytes.len() <= 63 && bytes.iter().copied().all(plain);
    if fits && edge(bytes.first()) && edge(bytes.last()) {
        format!("{INTENT}{uid}")
    } else {
        format!("{INTENT}{:016x}", fnv1a(uid))
    }
}

/// FNV-1a, 64 bits: the same in every version of the program.
pub(super) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
