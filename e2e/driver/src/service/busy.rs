//! Tracks operations in progress, so that a second call for the same object is refused with ABORTED
//! ("operation pending for volume", error table of the CSI specification).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tonic::Code;

use crate::plan::Refusal;

/// The objects with an operation in progress.
#[derive(Debug, Default)]
pub struct Busy(Mutex<BTreeSet<String>>);

impl Busy {
    /// Fails if the object has an operation in progress.
    pub fn check(&self, object: &str) -> Result<(), Refusal> {
        let objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if objects.contains(object) {
            Err(pending(object))
        } else {
            Ok(())
        }
    }

    /// Reserves the object until the guard is dropped.
    pub fn take(&self, object: String) -> Result<Guard<'_>, Refusal> {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !objects.insert(object.clone()) {
            return Err(pending(&object));
        }
        Ok(Guard { busy: self, object })
    }
}

fn pending(object: &str) -> Refusal {
    let message = format!("an operation for {object} is still under way");
    Refusal::new(Code::Aborted, message)
}

/// Releases the object when dropped.
#[derive(Debug)]
pub struct Guard<'a> {
    busy: &'a Busy,
    object: String,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mut objects = self.busy.0.lock().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&self.object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_taken_once_at_a_time() {
        let busy = Busy::default();
        let first = busy.take("v1".to_owned()).unwrap();
        assert_eq!(busy.take("v1".to_owned()).unwrap_err().code, Code::Aborted);
        assert!(busy.take("v2".to_owned()).is_ok());
        assert_eq!(busy.check("v1").unwrap_err().code, Code::Aborted);
        drop(first);
        assert!(busy.check("v1").is_ok());
        assert!(busy.take("v1".to_owned()).is_ok());
    }
}
