//! Which Secret a call carries.

use crate::text::Text;

/// A Secret by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretRef {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
}
