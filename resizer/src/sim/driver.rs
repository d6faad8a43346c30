//! The model driver: sizes and classes of volumes, and calls that outlive their caller.

use std::collections::BTreeMap;

use tonic::Code;

/// The change that a call requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// This size in bytes.
    Size(i64),
    /// This class.
    Class(String),
}

/// A call in progress.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) handle: String,
    pub(super) wish: Wish,
    /// Whether the caller still waits.
    pub(super) awaited: bool,
}

#[derive(Clone, Default)]
pub(super) struct Disk {
    pub(super) size: i64,
    /// The largest size that the driver has ever returned.
    pub(super) confirmed: i64,
    /// The last applied class.
    pub(super) class: String,
    /// Larger sizes are infeasible, for now.
    pub(super) limit: i64,
    /// Larger sizes are infeasible on the node.
    pub(super) node_limit: i64,
}

#[derive(Default)]
pub(super) struct ModelDriver {
    next: u64,
    pub(super) disks: BTreeMap<String, Disk>,
    pub(super) running: Vec<Call>,
    /// Whether volumes in use cannot be expanded.
    pub(super) offline: bool,
    /// Whether the class `c` is infeasible, for now.
    pub(super) picky: bool,
    /// Whether it is unreachable, for now.
    pub(super) away: bool,
}

impl ModelDriver {
    /// A call arrives. The driver aborts it if another one for the volume is in progress.
    pub(super) fn begin(&mut self, handle: &str, wish: Wish, used: bool) -> Result<u64, Code> {
        if self.running.iter().any(|call| call.handle == handle) {
            return Err(Code::Aborted);
        }
        let disk = self.disks.get(handle).ok_or(Code::Internal)?;
        match &wish {
            Wish::Size(bytes) if disk.size >= *bytes => {}
            Wish::Size(_) if self.offline && used => return Err(Code::FailedPrecondition),
            Wish::Size(bytes) if *bytes > disk.limit => return Err(Code::OutOfRange),
            Wish::Class(class) if class == "c" && self.picky => {
                return Err(Code::InvalidArgument);
            }
            Wish::Size(_) | Wish::Class(_) => {}
        }
        self.next += 1;
        self.running.push(Call {
            id: self.next,
            handle: handle.to_owned(),
            wish,
            awaited: true,
        });
        Ok(self.next)
    }

    /// The call ends, with or without effect; a new size is larger by `more` bytes.
    pub(super) fn end(&mut self, id: u64, effect: bool, more: i64) -> Option<Call> {
        let place = self.running.iter().position(|call| call.id == id)?;
        let call = self.running.remove(place);
        let disk = self.disks.get_mut(&call.handle).filter(|_| effect);
        if let Some(disk) = disk {
            match &call.wish {
                Wish::Size(bytes) => disk.size = disk.size.max(*bytes + more),
                Wish::Class(class) => disk.class.clone_from(class),
            }
        }
        Some(call)
    }

    /// The caller gives up; the call goes on.
    pub(super) fn abandon(&mut self, id: u64) {
        for call in self.running.iter_mut().filter(|call| call.id == id) {
            call.awaited = false;
        }
    }
}
