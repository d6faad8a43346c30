//! Reads objects from files: the output of `kubectl get -o json`, or the folders of a must-gather.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::Kind;
use crate::plan::{Read, Seen};

/// Largest dump that is read.
const LARGEST: u64 = 2 << 30;
/// Deepest nesting of folders.
const DEEPEST: usize = 16;

/// A file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// Reading it failed.
    #[error("--offline {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// It has another format.
    #[error("--offline {}: neither JSON nor YAML of Kubernetes objects: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        problem: String,
    },
    /// It exceeds `LARGEST`.
    #[error("--offline {}: larger than 2 GiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It has no object of a kind that the program reads.
    #[error("--offline {}: no object of a kind that matters; kubectl csi why --help has the commands that write them into it", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// JSON of one object.
struct Text<'a>(&'a str);

impl Read for Text<'_> {
    type Error = serde_json::Error;

    fn read<T: serde::de::DeserializeOwned>(self) -> Result<T, Self::Error> {
        serde_json::from_str(self.0)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// Reads a file, a folder, or standard input (`-`). Skips and counts objects that do not parse.
///
/// # Errors
/// The file cannot be read, or has no object.
pub fn read(path: &Path) -> Result<(Seen, usize), OfflineError> {
    let mut files = Files {
        seen: Seen::offline(),
        count: 0,
        unreadable: 0,
    };
    if path.is_dir() {
        files.folder(path, 0)?;
    } else {
        files.file(path)?;
    }
    if files.count == 0 {
        return Err(OfflineError::Empty { path: path.into() });
    }
    Ok((files.seen, files.unreadable))
}

struct Files {
    seen: Seen,
    count: usize,
    unreadable: usize,
}

impl Files {
    fn folder(&mut self, path: &Path, depth: usize) -> Result<(), OfflineError> {
        let failed = |error| OfflineError::Io {
            path: path.into(),
            error,
        };
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Symbolic links may lead anywhere, even back here.
            let kind = entry.file_type().map_err(failed)?;
            let path = entry.path();
            if kind.is_dir() && depth < DEEPEST {
                self.folder(&path, depth + 1)?;
            }
            let named = path
                .extension()
                .is_some_and(|one| one == "json" || one == "yaml" || one == "yml");
            // A must-gather has many files that are no objects.
            if kind.is_file()
                && named
                && let Err(error) = self.file(&path)
            {
                match error {
                    OfflineError::Format { .. } | OfflineError::Empty { .. } => {
                        self.unreadable += 1
                    }
                    OfflineError::Io { .. } | OfflineError::TooLarge { .. } => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), OfflineError> {
        let failed = |error| OfflineError::Io {
            path: path.into(),
            error,
        };
        let mut bytes = Vec::new();
        let read = if path == Path::new("-") {
            std::io::stdin()
                .lock()
                .take(LARGEST + 1)
                .read_to_end(&mut bytes)
        } else {
            std::fs::File::open(path)
                .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        };
        read.map_err(failed)?;
        if bytes.len() as u64 > LARGEST {
            return Err(OfflineError::TooLarge { path: path.into() });
        }
        let format = |problem: String| OfflineError::Format {
            path: path.into(),
            problem,
        };
        let json = bytes
            .iter()
            .find(|byte| !byte.is_ascii_whitespace())
            .is_some_and(|byte| *byte == b'{');
        if json {
            let documents = serde_json::Deserializer::from_slice(&bytes).into_iter::<&RawValue>();
            for document in documents {
                let document = document.map_err(|error| format(error.to_string()))?;
                self.document(document.get());
            }
            return Ok(());
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| format(error.to_string()))?;
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(text).map_err(|error| {
                let line = error.location().map(|at| format!("line {}", at.line()));
                format(line.unwrap_or_else(|| "it cannot be read".to_owned()))
            })?;
        for document in documents {
            self.document(&document.to_string());
        }
        Ok(())
    }

    fn document(&mut self, text: &str) {
        let Ok(head) = serde_json::from_str::<Head<'_>>(text) else {
            self.unreadable += 1;
            return;
        };
        let Some(items) = head.items else {
            self.object(&head.api_version, &head.kind, text);
            return;
        };
        // Items of a list of the API server, such as PodList, do not name their own kind.
        let of_list = head.kind.strip_suffix("List").unwrap_or_default();
        for item in items {
            let Ok(own) = serde_json::from_str::<Head<'_>>(item.get()) else {
                self.unreadable += 1;
                continue;
            };
            let kind = if own.kind.is_empty() {
                of_list
            } else {
                &own.kind
            };
            let version = if own.kind.is_empty() {
                &head.api_version
            } else {
                &own.api_version
            };
            self.object(version, kind, item.get());
        }
    }

    fn object(&mut self, version: &str, kind: &str, text: &str) {
        let Some(kind) = Kind::of_object(version, kind) else {
            return;
        };
        match self.seen.put(kind, Text(text)) {
            Ok(()) => self.count += 1,
            Err(_) => self.unreadable += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pod;
    use crate::plan::Record;

    fn names(text: &str) -> (Vec<String>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump");
        std::fs::write(&path, text).unwrap();
        let (seen, unreadable) = read(&path).unwrap();
        let pods = Pod::store(&seen).list(None);
        let names = pods.map(|pod| pod.metadata.name.to_string());
        (names.collect(), unreadable)
    }

    #[test]
    fn w_30_lists_objects_and_several_documents_are_read() {
        for text in [
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#,
            r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}]}"#,
            r#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}}]}"#,
            "{\"apiVersion\":\"v1\",\"kind\":\"Foo\"}\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}}",
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: Foo\n",
        ] {
            assert_eq!(names(text), (vec!["a".to_owned()], 0), "{text}");
        }
    }

    #[test]
    fn w_39_objects_of_a_wrong_form_are_left_out() {
        let text = r#"{"apiVersion":"v1","kind":"List","items":[
            {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}},
            {"apiVersion":"v1","kind":"Pod","metadata":7},
            7,
            {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a; reboot"}}]}"#;
        assert_eq!(names(text), (vec!["a".to_owned()], 2));
    }

    #[test]
    fn what_is_no_dump_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump");
        for (text, said) in [
            ("{", "neither JSON nor YAML"),
            ("a: [", "neither JSON nor YAML"),
            ("{}", "no object of a kind"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(
                error.contains(said) && error.contains("--offline "),
                "{error}"
            );
        }
        let error = read(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.starts_with("--offline /nowhere: "), "{error}");
    }

    #[test]
    fn w_30_folders_of_a_must_gather_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("namespaces/shop");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(
            inner.join("pod.yaml"),
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
        )
        .unwrap();
        std::fs::write(inner.join("log.txt"), "{").unwrap();
        std::fs::write(inner.join("broken.json"), "{").unwrap();
        let (seen, unreadable) = read(folder.path()).unwrap();
        assert_eq!((Pod::store(&seen).len(), unreadable), (1, 1));
    }
}
