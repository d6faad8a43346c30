//! Values that read `null` as absent.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use sidecar::text;

/// Bytes at which longer texts are truncated: a driver may write a megabyte into a status.
const LONGEST: usize = 8 << 10;

/// A text; `null` reads as empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(text::Text);

impl Text {
    /// The shared text itself, without a copy.
    pub(super) fn shared(self) -> text::Text {
        self.0
    }
}

impl Default for Text {
    fn default() -> Self {
        Self("".into())
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text::truncated(text, LONGEST).into())
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        *self.0 == **other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl Visitor<'_> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text::from(text))
            }

            fn visit_unit<E>(self) -> Result<Text, E> {
                Ok(Text::default())
            }

            // Quantities may be JSON numbers.
            fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string().into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string().into()))
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// A list; `null` reads as empty.
#[derive(Clone, Debug)]
pub struct Many<T>(Vec<T>);

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for Many<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> IntoIterator for Many<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Many<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = Option::<Vec<T>>::deserialize(deserializer)?;
        let mut list = list.unwrap_or_default();
        list.shrink_to_fit();
        Ok(Self(list))
    }
}

/// Prefixes of the annotations and parameters that are kept: those with a meaning to Kubernetes,
/// CSI or this project. All others may be large, and parameters may be secret.
const KEPT: &[&str] = &[
    "csi.storage.k8s.io/",
    "csi-sidecars.io/",
    "intent.csi-sidecars.io/",
    "kubernetes.io/azure-file-resource-group",
    "meta.helm.sh/",
    "pulumi.com/",
    "pv.kubernetes.io/",
    "restored.csi-sidecars.io/",
    "snapshot.storage.kubernetes.io/",
    "storageclass.kubernetes.io/",
    "volume.beta.kubernetes.io/",
    "volume.kubernetes.io/",
];

/// A map of texts, in the order of the document.
#[derive(Clone, Debug, Default)]
pub struct Pairs<const WHOLE: bool>(text::Pairs);

impl<const WHOLE: bool> Deref for Pairs<WHOLE> {
    type Target = text::Pairs;

    fn deref(&self) -> &text::Pairs {
        &self.0
    }
}

impl<const WHOLE: bool> Pairs<WHOLE> {
    /// Whether `other` contains every pair of this map.
    pub fn are_in(&self, other: &text::Pairs) -> bool {
        self.iter()
            .all(|(name, value)| other.get(name) == Some(value))
    }
}

impl<'de, const WHOLE: bool> Deserialize<'de> for Pairs<WHOLE> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<const WHOLE: bool>(PhantomData<()>);
        impl<'de, const WHOLE: bool> Visitor<'de> for PairsVisitor<WHOLE> {
            type Value = Pairs<WHOLE>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(name) = map.next_key::<Text>()? {
                    if WHOLE || KEPT.iter().any(|kept| name.starts_with(kept)) {
                        let value: Text = map.next_value()?;
                        pairs.push((name.0, value.0));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Pairs(pairs.into_iter().collect()))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Pairs::default())
            }
        }
        deserializer.deserialize_any(PairsVisitor(PhantomData))
    }
}

/// A time; one that does not parse reads as `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Option<Timestamp>);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        Ok(Self(text.parse().ok()))
    }
}
