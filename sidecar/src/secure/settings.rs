//! TLS settings from flags with Go's names.

use crate::flags::Exit;

/// The minimum TLS version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2
    #[default]
    Tls12,
    /// TLS 1.3
    Tls13,
}

impl Version {
    /// Parses `--tls-min-version`.
    ///
    /// # Errors
    /// The flag with its value.
    pub fn from_flag(text: &str) -> Result<Self, String> {
        match text {
            "" | "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            other => Err(format!(
                "--tls-min-version={other}: must be VersionTLS12 or VersionTLS13"
            )),
        }
    }
}

/// A cipher suite of TLS 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// `TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256`
    EcdsaAes128,
    /// `TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384`
    EcdsaAes256,
    /// `TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256`
    EcdsaChacha,
    /// `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`
    RsaAes128,
    /// `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`
    RsaAes256,
    /// `TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256`
    RsaChacha,
}

/// A key exchange group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// `CurveP256`
    P256,
    /// `CurveP384`
    P384,
    /// `X25519`
    X25519,
}

/// The parsed TLS flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// `--tls-min-version`
    pub version: Version,
    /// `--tls-cipher-suites`; `None` allows all.
    pub suites: Option<Vec<Suite>>,
    /// `--tls-curve-preferences`; `None` allows all.
    pub curves: Option<Vec<Curve>>,
}

/// Meaning of one of Go's names.
enum Known<T> {
    /// Supported.
    Here(T),
    /// Known to Go and not supported here.
    Missing,
    /// Always enabled, whatever the flag says.
    Always,
}

fn suite(name: &str) -> Option<Known<Suite>> {
    Some(match name {
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" => Known::Here(Suite::EcdsaAes128),
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" => Known::Here(Suite::EcdsaAes256),
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" => Known::Here(Suite::EcdsaChacha),
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" => Known::Here(Suite::RsaAes128),
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" => Known::Here(Suite::RsaAes256),
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" => Known::Here(Suite::RsaChacha),
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"
        | "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"
        | "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"
        | "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA" => Known::Missing,
        // Go cannot disable them either.
        "TLS_AES_128_GCM_SHA256" | "TLS_AES_256_GCM_SHA384" | "TLS_CHACHA20_POLY1305_SHA256" => {
            Known::Always
        }
        _ => return None,
    })
}

fn curve(name: &str) -> Option<Known<Curve>> {
    Some(match name {
        "CurveP256" => Known::Here(Curve::P256),
        "CurveP384" => Known::Here(Curve::P384),
        "X25519" => Known::Here(Curve::X25519),
        "CurveP521" | "X25519MLKEM768" => Known::Missing,
        _ => return None,
    })
}

impl Tls {
    /// Parses the three flags; returns warnings as well.
    ///
    /// # Errors
    /// Exit code 1 and the invalid value.
    pub fn from_flags(
        version: &str,
        suites: &str,
        curves: &str,
    ) -> Result<(Self, Vec<String>), Exit> {
        let version = Version::from_flag(version).map_err(|problem| Exit::failure(1, problem))?;
        let mut warnings = Vec::new();
        let suites = list("tls-cipher-suites", suites, suite, &mut warnings)?;
        let curves = list("tls-curve-preferences", curves, curve, &mut warnings)?;
        Ok((
            Self {
                version,
                suites,
                curves,
            },
            warnings,
        ))
    }
}

fn list<T>(
    flag: &str,
    names: &str,
    known: impl Fn(&str) -> Option<Known<T>>,
    warnings: &mut Vec<String>,
) -> Result<Option<Vec<T>>, Exit> {
    if names.is_empty() {
        return Ok(None);
    }
    let (mut found, mut missing, mut always) = (Vec::new(), Vec::new(), false);
    for name in names.split(',').map(str::trim) {
        match known(name) {
            Some(Known::Here(one)) => found.push(one),
            Some(Known::Missing) => missing.push(name),
            Some(Known::Always) => always = true,
            None => {
                let line = format!("--{flag}={names}: {name:?} is unknown or insecure");
                return Err(Exit::failure(1, line));
            }
        }
    }
    if !missing.is_empty() {
        let line = format!(
            "--{flag}: {} not available in this build, whose cryptography has none",
            missing.join(", ")
        );
        if found.is_empty() && !always {
            return Err(Exit::failure(1, line));
        }
        warnings.push(line);
    }
    // Names of TLS 1.3 suites alone leave TLS 1.2 unrestricted.
    Ok((!found.is_empty()).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cb_4_versions_suites_and_curves_by_go_s_names() {
        let ecdsa = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        let cbc = "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA";
        for (version, suites, curves, expected) in [
            ("", "", "", Ok((None, None, 0))),
            ("VersionTLS12", "", "", Ok((None, None, 0))),
            (
                "VersionTLS13",
                "",
                "CurveP384",
                Ok((None, Some(vec![Curve::P384]), 0)),
            ),
            ("", ecdsa, "", Ok((Some(vec![Suite::EcdsaAes128]), None, 0))),
            (
                "",
                &format!("{cbc},{ecdsa}"),
                "",
                Ok((Some(vec![Suite::EcdsaAes128]), None, 1)),
            ),
            ("", "TLS_AES_128_GCM_SHA256", "", Ok((None, None, 0))),
            (
                "",
                "",
                "X25519MLKEM768,X25519",
                Ok((None, Some(vec![Curve::X25519]), 1)),
            ),
            ("1.2", "", "", Err("--tls-min-version=1.2")),
            ("VersionTLS11", "", "", Err("VersionTLS11")),
            (
                "",
                "TLS_RSA_WITH_RC4_128_SHA",
                "",
                Err("TLS_RSA_WITH_RC4_128_SHA"),
            ),
            ("", cbc, "", Err(cbc)),
            ("", "", "P256", Err("P256")),
            ("", "", "CurveP521", Err("CurveP521")),
        ] {
            let found = Tls::from_flags(version, suites, curves);
            match expected {
                Ok(expected) => {
                    let (tls, warnings) = found.unwrap();
                    assert_eq!((tls.suites, tls.curves, warnings.len()), expected);
                }
                Err(text) => {
                    let exit = found.unwrap_err();
                    let line = exit.error.unwrap();
                    assert!(exit.code == 1 && line.contains(text), "{line}");
                }
            }
        }
    }
}
