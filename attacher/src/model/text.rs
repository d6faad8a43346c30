//! Shared strings: most values of a PersistentVolume repeat from object to object.
//!
//! Separate, so that records can share one allocation per distinct value without knowing who
//! interned it.

use std::sync::Arc;

/// An immutable string that many records may share.
pub type Text = Arc<str>;

/// An immutable list of strings that many records may share.
pub type List = Arc<[Text]>;
