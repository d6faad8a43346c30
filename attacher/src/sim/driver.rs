//! The model driver: which volume is attached where, and calls that outlive their caller.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Code;

use crate::plan::flight::Target;

/// Publish or unpublish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Publish,
    Unpublish,
}

/// A call that the driver is executing.
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
    /// Kind of the last call for each target that had effect.
    pub(super) last: BTreeMap<(String, String), Kind>,
    /// Number of publish and unpublish calls that had something to do, by target.
    pub(super) calls: BTreeMap<(String, String), (u32, u32)>,
}

pub(super) fn key(target: &Target) -> (String, String) {
    (target.volume.to_string(), target.node.to_string())
}

impl ModelDriver {
    /// A call arrives. While another one for the volume and node is running, the driver refuses it.
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

    /// Ends the call, with or without effect. Returns it, so that the caller gets the answer.
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

    /// Whether this call publishes the volume `handle`.
    pub(super) fn refuses(&self, id: u64, handle: &str) -> bool {
        let mut calls = self.running.iter();
        calls.any(|call| {
            call.id == id && call.kind == Kind::Publish && *call.target.volume == *handle
        })
    }

    /// The caller gives up; the call continues.
    pub(super) fn abandon(&mut self, id: u64) {
        for call in self.running.iter_mut().filter(|call| call.id == id) {
            call.awaited = false;
        }
    }

    /// Whether the driver has the volume published, or may have once its running calls end.
    pub(super) fn may_hold(&self, target: &Target) -> bool {
        let publishes = |call: &Call| call.target == *target && call.kind == Kind::Publish;
        self.attached.contains(&key(target)) || self.running.iter().any(publishes)
    }
}
