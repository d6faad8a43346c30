//! PersistentVolumes that attempts asked for, and which of them have come since.
//!
//! That there is none may be answered, or acted upon, when the watch has brought it already: who would
//! then wait for it would wait in vain.

use std::collections::HashMap;

use crate::model::Text;

/// What attempts that are under way asked for, by their attachment.
#[derive(Debug, Default)]
pub struct AskedVolumes {
    by_attachment: HashMap<Text, Asked>,
}

#[derive(Debug)]
struct Asked {
    volume: Text,
    came: bool,
}

impl AskedVolumes {
    /// The volume is asked for.
    pub fn begin(&mut self, attachment: &Text, volume: &Text) {
        let asked = Asked {
            volume: volume.clone(),
            came: false,
        };
        self.by_attachment.insert(attachment.clone(), asked);
    }

    /// The volume is there now.
    pub fn came(&mut self, volume: &Text) {
        let all = self.by_attachment.values_mut();
        all.filter(|asked| asked.volume == *volume)
            .for_each(|asked| asked.came = true);
    }

    /// Whether the volume is to be asked for: it was not, or has come since.
    #[must_use]
    pub fn is_due(&self, attachment: &Text, volume: &Text) -> bool {
        let asked = self.by_attachment.get(attachment);
        asked.is_none_or(|asked| asked.volume != *volume || asked.came)
    }

    /// The attempt is over.
    pub fn end(&mut self, attachment: &Text) {
        self.by_attachment.remove(attachment);
    }
}
