//! Detects whether the driver sends GOAWAY before it closes a connection.
//!
//! gRPC servers close idle or old connections after a GOAWAY without an error. tonic does not tell that from a
//! driver that is gone, so the frame headers are parsed here.

/// Size of a frame header: length, type, flags, stream.
const HEAD: usize = 9;
/// Size of a GOAWAY's fixed fields, before optional debug data: last stream, error.
const FIELDS: usize = 8;
const GOAWAY: u8 = 7;

/// Parses what the driver sends, in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Goodbye {
    /// The frame being read: its header, and a GOAWAY's fields.
    frame: [u8; HEAD + FIELDS],
    filled: usize,
    /// Bytes of the current frame's payload still to skip.
    rest: usize,
    said: bool,
}

impl Goodbye {
    pub(super) fn was_said(&self) -> bool {
        self.said
    }

    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let passed = self.rest.min(bytes.len());
                self.rest -= passed;
                bytes = bytes.get(passed..).unwrap_or_default();
                continue;
            }
            let wanted = if self.filled < HEAD {
                HEAD
            } else {
                HEAD + FIELDS
            };
            let taken = (wanted - self.filled).min(bytes.len());
            let (taken, left) = bytes.split_at(taken);
            let place = self.frame.iter_mut().skip(self.filled);
            place.zip(taken).for_each(|(place, byte)| *place = *byte);
            self.filled += taken.len();
            bytes = left;
            self.complete();
        }
    }

    /// Parses the bytes of the frame so far, and skips its rest once they suffice.
    fn complete(&mut self) {
        let [a, b, c, kind, _, _, _, _, _, _, _, _, _, error @ ..] = self.frame;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let is_goodbye = kind == GOAWAY && length >= FIELDS;
        if self.filled == HEAD && !is_goodbye {
            self.rest = length;
            self.filled = 0;
        } else if self.filled == HEAD + FIELDS {
            self.said = u32::from_be_bytes(error) == 0;
            self.rest = length - FIELDS;
            self.filled = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [length[1], length[2], length[3], kind, 0, 0, 0, 0, 0];
        [&head, payload].concat()
    }

    #[test]
    fn a_goodbye_is_heard_among_frames_cut_anywhere() {
        let settings = frame(4, &[0, 3, 0, 0, 0, 100]);
        // Looks like a GOAWAY but is data.
        let data = frame(0, &frame(GOAWAY, &[0; FIELDS]));
        let goodbye = frame(GOAWAY, b"\x7f\xff\xff\xff\0\0\0\0max_age");
        let ping = frame(6, &[0; 8]);
        let angry = frame(GOAWAY, &[0, 0, 0, 1, 0, 0, 0, 11]);
        for (frames, want) in [
            (vec![&settings, &data, &ping], false),
            (vec![&settings, &goodbye, &ping], true),
            (vec![&data, &angry], false),
            (vec![&goodbye, &goodbye], true),
            (vec![&goodbye, &angry], false),
        ] {
            let bytes: Vec<u8> = frames.into_iter().flatten().copied().collect();
            for size in 1..=bytes.len() {
                let mut heard = Goodbye::default();
                bytes.chunks(size).for_each(|piece| heard.read(piece));
                assert_eq!(heard.was_said(), want, "{size}");
            }
        }
    }
}
