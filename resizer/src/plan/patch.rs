//! Bodies of patches: strategic merge patches, as small as they can be.
//!
//! They are what other programs see of all this, byte for byte. A patch of a claim carries the
//! version that it was made for, and so does one of a PersistentVolume in the end: it replaces what
//! it decided on and nothing else, however late it arrives. What would change nothing is `None` and
//! is not sent.
//!
//! | file | patches |
//! |---|---|
//! | `claim` | what all patches of a claim have in common |
//! | `resize` | a claim on its way through an expansion |
//! | `modify` | a claim on its way through a modification |
//! | `volume` | a PersistentVolume |

mod claim;
mod modify;
mod resize;
mod volume;

pub use modify::{
    cancel_modify, finish_modify, mark_modifying, modify_error, pending_class, take_over_modify,
};
pub use resize::{finish_resize, mark_resizing, pending_on_node, resize_error, take_over_resize};
pub use volume::{Annotation, Capacity, bind_to_version, grow, remove_annotation, set_class};

#[cfg(test)]
mod tests;
