//! CSIStorageCapacity: tells the scheduler how much room the driver has where.
//!
//! | file | concept |
//! |---|---|
//! | `desired_objects` | which objects there should be, and which there are |
//! | `object` | what an object says |
//! | `owner` | with whom the objects vanish |
//! | `name` | which objects are this process's own |
//! | `trigger` | what volumes that come and go change |

mod desired_objects;
mod name;
mod object;
mod owner;
mod trigger;

pub use desired_objects::{Book, Figures, Item, Task};
pub use name::managed_by;
pub use object::{Negative, Producer, Room, Step, request};
pub use owner::{Met, Next, NoController, Owner, Walk, Wanted};
