//! Who waits for what to appear.

use super::InFlightState;
use crate::plan::fairness::Task;
use crate::plan::outcome::RequeueTrigger;

impl InFlightState {
    pub(super) fn cured(&mut self, cure: &RequeueTrigger) -> Vec<Task> {
        let tasks = self.cures.get(cure);
        tasks.into_iter().flatten().cloned().collect()
    }

    pub(super) fn wait_for(&mut self, cure: RequeueTrigger, task: &Task) {
        self.waiting
            .entry(task.clone())
            .or_default()
            .push(cure.clone());
        self.cures.entry(cure).or_default().insert(task.clone());
    }

    pub(super) fn stop_waiting(&mut self, task: &Task) {
        for cure in self.waiting.remove(task).unwrap_or_default() {
            if let Some(tasks) = self.cures.get_mut(&cure) {
                tasks.remove(task);
                if tasks.is_empty() {
                    self.cures.remove(&cure);
                }
            }
        }
    }
}
