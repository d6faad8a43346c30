//! Programs that need no other files in their image.
//!
//! A dynamic program, or one for another architecture, results in an image that builds, pushes and
//! pulls, but fails on a node with "no such file or directory". This module detects both from the
//! ELF header.

use std::path::Path;

use crate::Error;

/// `e_machine`, and the architecture in Go's spelling.
const PROCESSORS: [(u64, &str); 2] = [(62, "amd64"), (183, "arm64")];

/// Type of the program header that names a loader.
const PT_INTERP: u64 = 3;

/// A static program for Linux.
pub struct Program {
    content: Vec<u8>,
    architecture: &'static str,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.content.len();
        write!(f, "Program({}, {bytes} bytes)", self.architecture)
    }
}

impl Program {
    /// Reads a program; fails unless it is static and for a known architecture.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let content = std::fs::read(file).map_err(|source| Error::Read {
            path: file.to_owned(),
            source,
        })?;
        match examine(&content) {
            Ok(architecture) => Ok(Self {
                content,
                architecture,
            }),
            Err(reason) => Err(Error::Unfit {
                path: file.to_owned(),
                reason,
            }),
        }
    }

    /// The file's bytes.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// The architecture in Go's spelling (`amd64`, `arm64`).
    #[must_use]
    pub fn architecture(&self) -> &'static str {
        self.architecture
    }
}

/// The architecture, or the problem.
fn examine(content: &[u8]) -> Result<&'static str, String> {
    // 64 bits, little-endian.
    if !content.starts_with(b"\x7fELF\x02\x01") {
        return Err("is not a 64-bit program for Linux".to_owned());
    }
    let cut_off = || "is cut off: build it again".to_owned();
    let machine = number::<2>(content, 18).ok_or_else(cut_off)?;
    let known = PROCESSORS.iter().find(|(code, _)| *code == machine);
    let Some((_, architecture)) = known else {
        return Err(format!(
            "is for processor {machine} of ELF's list; images are made for amd64 and arm64"
        ));
    };
    match loader(content).ok_or_else(cut_off)? {
        None => Ok(architecture),
        Some(loader) => Err(format!(
            "is not static: it is started by {loader}, which an image of one program does not have; \
             `make build` links statically"
        )),
    }
}

/// The program's loader, if it has one; the outer `None` means that the file is truncated.
fn loader(content: &[u8]) -> Option<Option<String>> {
    let table = number::<8>(content, 32)?;
    let size = number::<2>(content, 54)?;
    let count = number::<2>(content, 56)?;
    for index in 0..count {
        let header = table.checked_add(index.checked_mul(size)?)?;
        if number::<4>(content, header)? != PT_INTERP {
            continue;
        }
        let at = usize::try_from(number::<8>(content, header.checked_add(8)?)?).ok()?;
        let length = usize::try_from(number::<8>(content, header.checked_add(32)?)?).ok()?;
        let name = content.get(at..at.checked_add(length)?)?;
        let name = String::from_utf8_lossy(name);
        return Some(Some(name.trim_end_matches('\0').to_owned()));
    }
    Some(None)
}

/// A little-endian number of `N` bytes.
fn number<const N: usize>(content: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = content.get(at..at.checked_add(N)?)?;
    let number = bytes.iter().rev();
    Some(number.fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header and, with a loader, the program header that names it.
    fn elf(machine: u16, loader: Option<&str>) -> Vec<u8> {
        let mut bytes = vec![0_u8; 120];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32] = 64;
        bytes[54] = 56;
        if let Some(loader) = loader {
            bytes[56] = 1;
            bytes[64] = 3;
            bytes[72] = 120;
            bytes[96] = u8::try_from(loader.len() + 1).unwrap();
            bytes.extend(loader.bytes().chain([0]));
        }
        bytes
    }

    #[test]
    fn a_static_program_tells_its_processor() {
        assert_eq!(examine(&elf(62, None)), Ok("amd64"));
        assert_eq!(examine(&elf(183, None)), Ok("arm64"));
    }

    #[test]
    fn what_would_not_run_is_refused_with_the_reason() {
        let dynamic = elf(62, Some("/lib64/ld-linux-x86-64.so.2"));
        for (bytes, part) in [
            (b"#!/bin/sh\n".to_vec(), "is not a 64-bit program"),
            (Vec::new(), "is not a 64-bit program"),
            (elf(243, None), "is for processor 243"),
            (dynamic.clone(), "started by /lib64/ld-linux-x86-64.so.2,"),
            (elf(62, None)[..30].to_vec(), "is cut off"),
            (dynamic[..100].to_vec(), "is cut off"),
        ] {
            let reason = examine(&bytes).unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn no_header_makes_it_panic() {
        let mut bytes = elf(62, Some("/x"));
        for at in 16..64 {
            let before = std::mem::replace(&mut bytes[at], 0xff);
            let _ = examine(&bytes);
            bytes[at] = before;
        }
    }
}
