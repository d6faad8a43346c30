//! The class that a modification begins with.

use tonic::Code;

use super::super::view::View;
use crate::model::{AttributesClass, Text};

/// Why a class is unusable.
pub(super) struct Unusable {
    pub(super) message: String,
    /// The gRPC code of a driver's refusal; `None` if the class does not exist.
    pub(super) code: Option<Code>,
}

/// The class to begin with, or why it is unusable.
pub(super) fn usable<'a>(view: &View<'a>, target: &Text) -> Result<&'a AttributesClass, Unusable> {
    let class = view.class.ok_or_else(|| Unusable {
        message: format!("VAC {target:?} does not exist."),
        code: None,
    })?;
    let (driver, named) = (&view.driver.name, &class.driver);
    if **named == **driver {
        Ok(class)
    } else {
        Err(Unusable {
            message: format!(
                "VAC {target:?} is for the driver {named:?}, but the volume is one of {driver:?}; \
                 choose a class of that driver."
            ),
            code: Some(Code::InvalidArgument),
        })
    }
}
