//! CSIStorageCapacity: tells the scheduler the driver's free capacity per class and topology segment.
//!
//! | file | concept |
//! |---|---|
//! | `desired_objects` | the desired objects, and the existing ones |
//! | `object` | the content of an object |
//! | `owner` | the owner of the objects |
//! | `name` | the label of this process's own objects |
//! | `trigger` | the effect of created and deleted volumes |

mod desired_objects;
mod name;
mod object;
mod owner;
mod trigger;

pub use desired_objects::{DesiredObjects, Figures, Item, Task};
pub use name::managed_by;
pub use object::{FreeCapacity, Negative, Producer, Step, request};
pub use owner::{Met, Next, NoController, Owner, Walk, Wanted};
