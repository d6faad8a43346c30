//! What one controller answers about objects, with `--why-endpoint`.

use std::sync::Arc;

use super::Seat;
use crate::controller::engine::{Engine, Shell};
use crate::controller::view::Followed;
use crate::names;
use crate::why::{Entry, Explained};

impl Seat {
    /// Lets `engine` answer questions about objects, if there are to be answers. `driver` is its driver, if it has one.
    pub fn explained<R: Explained, S: Shell<R>>(
        &self,
        engine: &Arc<Engine<R, S>>,
        driver: Option<&dyn Followed>,
    ) {
        let Some(why) = &self.process.why else {
            return;
        };
        let name = driver.map(Followed::driver_name).unwrap_or_default();
        why.explainers.add(Entry {
            program: self.program.name,
            name: self.name_among_others().unwrap_or(self.program.name),
            driver: name.to_owned(),
            lease: names::lease(self.program.owner, name),
            link: driver.map(Followed::connection),
            lists: self.lists.clone(),
            explainer: engine.explained(),
        });
    }
}
