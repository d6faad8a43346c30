//! Adds fields that CSI 1.13 does not define, as drivers of other versions send them.
//!
//! Up to CSI 1.12 field 2 of the status messages and of NodeGetVolumeStatsResponse was a
//! VolumeCondition. The generated types cannot hold it, so its bytes are inserted into the finished
//! response. Pure.

use std::collections::BTreeMap;

use csi_proto::csi;
use prost::Message as _;

/// A field number that no version uses.
const STRANGER: u32 = 1999;

/// The additions of other CSI versions to a response.
#[derive(Debug, Clone, Default)]
pub struct Versions {
    /// Add fields of older versions and one that no version has.
    pub unknown_fields: bool,
    /// Volume conditions as in CSI 1.12: messages of abnormal volumes by handle.
    pub conditions: Option<BTreeMap<String, String>>,
}

impl Versions {
    /// Whether there are any additions.
    pub fn any(&self) -> bool {
        self.unknown_fields || self.conditions.is_some()
    }

    /// The response with these additions.
    pub fn add(&self, method: &str, message: &[u8]) -> Vec<u8> {
        let with = { self.conditions.as_ref() }.and_then(|all| conditions(all, method, message));
        let message = with.unwrap_or_else(|| message.to_vec());
        match self.unknown_fields {
            true => add(method, &message),
            false => message,
        }
    }
}

/// The response with a condition in each status; `None` for other methods.
fn conditions(all: &BTreeMap<String, String>, method: &str, message: &[u8]) -> Option<Vec<u8>> {
    // Protobuf merges a submessage that occurs twice.
    let status = |volume: Option<&csi::Volume>| {
        let message = all.get(&volume?.volume_id);
        let mut condition = Vec::new();
        if let Some(message) = message {
            condition.extend([1 << 3, 1]);
            condition.extend(field(2, message.as_bytes()));
        }
        Some(field(2, &field(2, &condition)))
    };
    match method {
        "ListVolumes" => {
            let list = csi::ListVolumesResponse::decode(message).ok()?;
            let mut changed = Vec::new();
            for entry in &list.entries {
                let status = status(entry.volume.as_ref()).unwrap_or_default();
                changed.extend(field(1, &[entry.encode_to_vec(), status].concat()));
            }
            let rest = csi::ListVolumesResponse {
                entries: Vec::new(),
                next_token: list.next_token,
            };
            changed.extend(rest.encode_to_vec());
            Some(changed)
        }
        "ControllerGetVolume" => {
            let answer = csi::ControllerGetVolumeResponse::decode(message).ok()?;
            let status = status(answer.volume.as_ref())?;
            Some([message, &status].concat())
        }
        _ => None,
    }
}

/// The response with the fields of an older driver and one of a newer one.
pub fn add(method: &str, message: &[u8]) -> Vec<u8> {
    let condition = field(2, &condition());
    let older = match method {
        "ListVolumes" => append_at(message, &[1, 2], &condition),
        "ControllerGetVolume" => append_at(message, &[2], &condition),
        "NodeGetVolumeStats" => append_at(message, &[], &condition),
        _ => Some(message.to_vec()),
    };
    // An invalid message is left alone: the tests are about unknown fields, not about garbage.
    let mut changed = older.unwrap_or_else(|| message.to_vec());
    changed.extend(field(STRANGER, b"from another version"));
    changed
}

/// VolumeCondition: abnormal = 1 (bool), message = 2 (string).
fn condition() -> Vec<u8> {
    let mut bytes = vec![1 << 3, 1];
    bytes.extend(field(2, b"an old driver's opinion"));
    bytes
}

/// A length-delimited field.
fn field(number: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = varint((u64::from(number) << 3) | 2);
    bytes.extend(varint(content.len() as u64));
    bytes.extend_from_slice(content);
    bytes
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Appends `addition` to every message at `path`; `None` if these are not valid messages.
fn append_at(message: &[u8], path: &[u32], addition: &[u8]) -> Option<Vec<u8>> {
    let Some((wanted, deeper)) = path.split_first() else {
        return Some([message, addition].concat());
    };
    let mut changed = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let start = rest;
        let (key, after) = read_varint(rest)?;
        rest = match key & 7 {
            0 => read_varint(after)?.1,
            1 => after.get(8..)?,
            5 => after.get(4..)?,
            2 => {
                let (length, content) = read_varint(after)?;
                let (content, next) = content.split_at_checked(usize::try_from(length).ok()?)?;
                if key >> 3 == u64::from(*wanted) {
                    changed.extend(field(*wanted, &append_at(content, deeper, addition)?));
                    rest = next;
                    continue;
                }
                next
            }
            _ => return None,
        };
        changed.extend_from_slice(start.get(..start.len() - rest.len())?);
    }
    Some(changed)
}

fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use csi_proto::csi;
    use csi_proto::csi::list_volumes_response::{Entry, VolumeStatus};
    use prost::Message;

    use super::*;

    fn list() -> csi::ListVolumesResponse {
        let entry = |id: &str| Entry {
            volume: Some(csi::Volume {
                volume_id: id.to_owned(),
                capacity_bytes: 1 << 40,
                ..Default::default()
            }),
            status: Some(VolumeStatus {
                published_node_ids: vec!["n1".to_owned()],
            }),
        };
        csi::ListVolumesResponse {
            entries: vec![entry("v1"), entry("v2")],
            next_token: "2".to_owned(),
        }
    }

    #[test]
    fn every_status_gets_a_condition_and_the_rest_stays() {
        let plain = list().encode_to_vec();
        let changed = add("ListVolumes", &plain);
        assert_eq!(
            csi::ListVolumesResponse::decode(changed.as_slice()).unwrap(),
            list()
        );
        let needle = b"an old driver's opinion";
        let found = changed
            .windows(needle.len())
            .filter(|window| window == needle)
            .count();
        assert_eq!(found, 2);
    }

    #[test]
    fn conditions_are_what_an_older_client_reads() {
        use csi_proto::volume_condition;
        let versions = Versions {
            conditions: Some([("v2".to_owned(), "disk gone".to_owned())].into()),
            ..Versions::default()
        };
        let changed = versions.add("ListVolumes", &list().encode_to_vec());
        assert_eq!(csi::ListVolumesResponse::decode(&*changed).unwrap(), list());
        let older = volume_condition::ListVolumesResponse::decode(&*changed).unwrap();
        let condition = |status: Option<volume_condition::VolumeStatus>| {
            let condition = status.unwrap().volume_condition.unwrap();
            (condition.abnormal, condition.message)
        };
        let told: Vec<_> = { older.entries.into_iter() }
            .map(|entry| condition(entry.status))
            .collect();
        let expected = [(false, String::new()), (true, "disk gone".to_owned())];
        assert_eq!((told, older.next_token.as_str()), (expected.to_vec(), "2"));
        let answer = csi::ControllerGetVolumeResponse {
            volume: list().entries.remove(1).volume,
            status: None,
        };
        let changed = versions.add("ControllerGetVolume", &answer.encode_to_vec());
        let older = volume_condition::ControllerGetVolumeResponse::decode(&*changed).unwrap();
        assert_eq!(condition(older.status), (true, "disk gone".to_owned()));
    }

    #[test]
    fn other_answers_get_a_stranger() {
        let plain = csi::ProbeResponse { ready: Some(true) };
        let changed = add("Probe", &plain.encode_to_vec());
        assert!(changed.len() > plain.encoded_len());
        assert_eq!(
            csi::ProbeResponse::decode(changed.as_slice()).unwrap(),
            plain
        );
    }

    #[test]
    fn garbage_is_left_alone() {
        assert_eq!(append_at(&[0x0a, 0x7f, 1], &[1, 2], b""), None);
        assert!(add("ListVolumes", &[0x0a, 0x7f, 1]).starts_with(&[0x0a, 0x7f, 1]));
    }
}
