//! Reads SETTINGS_MAX_CONCURRENT_STREAMS from the first frame of an HTTP/2 connection.
//!
//! The library exposes the value only to callers that drive the connection themselves. The first frame must be
//! a SETTINGS frame (RFC 9113, 3.4 and 6.5.2), and no API server changes the value later.

/// The type of a SETTINGS frame.
const SETTINGS: u8 = 4;
/// SETTINGS_MAX_CONCURRENT_STREAMS
const STREAMS: u16 = 3;
/// Size of a frame header: length, type, flags, stream.
const HEADER: usize = 9;
/// Size of a setting: identifier and value.
const SETTING: usize = 6;
/// Maximum frame size before the settings are exchanged.
const LONGEST: usize = 1 << 14;

/// The bytes of the first frame that have arrived.
#[derive(Debug, Default)]
pub(super) struct SettingsFrame(Vec<u8>);

impl SettingsFrame {
    /// Appends bytes. Returns how many concurrent requests the connection accepts, as soon as it is known;
    /// without this setting any number, and also for a bad frame, which the library is about to report.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        self.0.extend_from_slice(bytes);
        let (header, settings) = self.0.split_first_chunk::<HEADER>()?;
        let [a, b, c, kind, ..] = *header;
        let length = u32::from_be_bytes([0, a, b, c]);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if kind != SETTINGS || length > LONGEST {
            return Some(usize::MAX);
        }
        let settings = settings.get(..length)?;
        let mut most = settings
            .chunks_exact(SETTING)
            .filter_map(|setting| <[u8; SETTING]>::try_from(setting).ok())
            .filter(|[a, b, ..]| u16::from_be_bytes([*a, *b]) == STREAMS)
            .map(|[_, _, a, b, c, d]| u32::from_be_bytes([a, b, c, d]));
        let most = most
            .next_back()
            .map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        Some(most.unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, settings: &[(u16, u32)]) -> Vec<u8> {
        let length = u8::try_from(settings.len() * SETTING).unwrap();
        let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, 0];
        for (name, value) in settings {
            frame.extend(name.to_be_bytes());
            frame.extend(value.to_be_bytes());
        }
        frame
    }

    #[test]
    fn the_number_of_requests_is_read_however_the_bytes_come() {
        let window = (4, 65_535);
        let other = usize::MAX;
        for (kind, settings, most) in [
            (SETTINGS, vec![window, (3, 250), (5, 16_384)], 250),
            (SETTINGS, vec![(3, 0)], 0),
            (SETTINGS, vec![(3, 7), (3, 8)], 8),
            (SETTINGS, vec![window], other),
            (SETTINGS, vec![], other),
            (7, vec![(3, 4)], other),
        ] {
            let mut bytes = frame(kind, &settings);
            bytes.extend([1, 2, 3]);
            assert_eq!(
                SettingsFrame::default().read(&bytes),
                Some(most),
                "{settings:?}"
            );
            let mut slowly = SettingsFrame::default();
            let found = bytes.iter().find_map(|byte| slowly.read(&[*byte]));
            assert_eq!(found, Some(most), "{settings:?}");
        }
        assert_eq!(
            SettingsFrame::default().read(b"HTTP/1.1 400 Bad"),
            Some(other)
        );
        assert_eq!(SettingsFrame::default().read(&[0, 0]), None);
    }
}
