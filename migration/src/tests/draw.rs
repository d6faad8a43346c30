//! Numbers that look random, and are the same in every run from the same seed.

/// `SplitMix64`.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % end
    }

    /// True in this percentage of cases.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len())]
    }

    /// A text with `change` inserted at a random place.
    pub(super) fn inserted(&mut self, text: &str, change: &str) -> String {
        let mut places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        places.push(text.len());
        let at = self.pick(&places);
        format!("{}{change}{}", &text[..at], &text[at..])
    }

    /// A text with letters of random case.
    pub(super) fn cased(&mut self, text: &str) -> String {
        match self.below(3) {
            0 => text.to_owned(),
            1 => text.to_uppercase(),
            _ => { text.chars() }
                .map(|c| {
                    if self.chance(30) {
                        c.to_ascii_uppercase()
                    } else {
                        c
                    }
                })
                .collect(),
        }
    }
}
