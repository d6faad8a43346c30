//! The class that a modification begins with.

use tonic::Code;

use super::super::view::View;
use crate::model::{AttributesClass, Text};

/// Why nothing can be begun with a class.
pub(super) struct Unusable {
    pub(super) message: String,
    /// What the driver would answer; none if there is no class to ask it with.
    pub(super) code: Option<Code>,
}

/// The class to begin with; otherwise why there is none.
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
