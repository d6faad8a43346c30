//! Bodies of patches: strategic merge patches, as small as possible.
//!
//! Other programs see the resizer's work through these patches, byte for byte. A patch of a claim
//! carries the resource version that it was computed for, and so does one of a PersistentVolume: it
//! applies to that version only, however late it arrives. A patch that would change nothing is
//! `None` and is not sent.
//!
//! | file | patches |
//! |---|---|
//! | `claim` | the parts that all patches of a claim share |
//! | `resize` | patches of a claim during an expansion |
//! | `modify` | patches of a claim during a modification |
//! | `volume` | patches of a PersistentVolume |

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
