//! Bounds the number of values of a label. Pure.

use crate::text::Text;

/// Maximum number of values: users choose the names of classes, and each name adds series that never go away.
const MOST: usize = 50;

/// The value for all further names.
pub(super) const OTHER: &str = "other";

/// The first distinct names.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Text>);

impl Names {
    /// The number of this name, from 1; 0 if it is beyond the limit.
    pub(super) fn number(&mut self, name: &str) -> u8 {
        let known = self.0.iter().position(|known| **known == *name);
        let at = known.or_else(|| {
            let next = (self.0.len() < MOST).then_some(self.0.len())?;
            self.0.push(name.into());
            Some(next)
        });
        at.and_then(|at| u8::try_from(at + 1).ok()).unwrap_or(0)
    }

    /// The name with this number.
    pub(super) fn name(&self, number: u8) -> &str {
        let at = usize::from(number).checked_sub(1);
        at.and_then(|at| self.0.get(at)).map_or(OTHER, |name| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_92_of_60_names_the_50_first_are_told_apart() {
        let mut names = Names::default();
        let told: Vec<String> = (0..60)
            .map(|name| {
                let number = names.number(&format!("class-{name}"));
                names.name(number).to_owned()
            })
            .collect();
        let expected: Vec<String> = (0..60)
            .map(|name| match name {
                0..50 => format!("class-{name}"),
                _ => OTHER.to_owned(),
            })
            .collect();
        assert_eq!(told, expected);
        let again = names.number("class-7");
        assert_eq!(names.name(again), "class-7");
    }
}
