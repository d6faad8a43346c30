//! Which Secret a call carries.

use super::Text;

/// A Secret by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretRef {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
}
