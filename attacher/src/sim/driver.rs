//! The model driver: what is attached where, and calls that outlive their caller.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Code;

use crate::plan::flight::Target;

/// Publish or unpublish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Publish,
    Unpublish,
}

/// A call the driver works on.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) target: Target,
    pub(super) kind: Kind,
    /// Whether the caller still waits.
    pub(super) awaited: bool,
}

#[derive(Default)]
pub(super) struct ModelDriver {
    next: u64,
    pub(super) attached: BTreeSet<(String, String)>,
    pub(super) running: Vec<Call>,
    /// The last call for a target that had effect, and whether its caller learnt of it.
    pub(super) last: BTreeMap<(String, String), Kind>,
    /// How many calls of each kind had effect where there was something to do.
    pub(super) calls: BTreeMap<(String, String), (u32, u32)>,
}

pub(super) fn key(target: &Target) -> (String, String) {
    (target.volume.to_string(), target.node.to_string())
}

impl ModelDriver {
    /// A call arrives. A driver that still works on another one for the volume and node says so.
    pub(super) fn begin(&mut self, target: &Target, kind: Kind) -> Result<u64, Code> {
        let count = self.calls.entry(key(target)).or_default();
        match kind {
            Kind::Publish => count.0 += 1,
            Kind::Unpublish => count.1 += 1,
        }
        if self.running.iter().any(|call| call.target == *target) {
            return Err(Code::Aborted);
        }
        self.next += 1;
        self.running.push(Call {
            id: self.next,
            target: target.clone(),
            kind,
            awaited: true,
        });
        Ok(self.next)
    }

    /// The call ends, with effect or without. Returns it, for the caller to be told.
    pub(super) fn end(&mut self, id: u64, effect: bool) -> Option<Call> {
        let place = self.running.iter().position(|call| call.id == id)?;
        let call = self.running.remove(place);
        if effect {
            let key = key(&call.target);
            match call.kind {
                Kind::Publish => self.attached.insert(key.clone()),
                Kind::Unpublish => self.attached.remove(&key),
            };
            self.last.insert(key, call.kind);
        }
        Some(call)
    }

    /// Whether the call is to publish volume `handle`.
    pub(super) fn refuses(&self, id: u64, handle: &str) -> bool {
        let mut calls = self.running.iter();
        calls.any(|call| {
            call.id == id && call.kind == Kind::Publish && *call.target.volume == *handle
        })
    }

    /// The caller waits no longer; the call goes on.
    pub(super) fn abandon(&mut self, id: u64) {
        for call in self.running.iter_mut().filter(|call| call.id == id) {
            call.awaited = false;
        }
    }

    /// Whether the driver may hold the attachment now or when a running call ends.
    pub(super) fn may_hold(&self, target: &Target) -> bool {
        let publishes = |call: &Call| call.target == *target && call.kind == Kind::Publish;
        self.attached.contains(&key(target)) || self.running.iter().any(publishes)
    }
}
