//! The header `Accept` of a request for a page that exists as text alone.

use http::HeaderValue;

/// Parameters of a media type that ask for an API object, a table or a stream instead of text.
const STRUCTURED: [&str; 5] = ["as", "g", "v", "sv", "stream"];

/// Whether the client accepts `text/plain`, by the rules of Kubernetes' components: a client that names no type does, and
/// weights (`q`) do not count. Unlike there, the case of a type does not matter.
pub(super) fn takes_text(accept: Option<&HeaderValue>) -> bool {
    let Some(accept) = accept else { return true };
    let accept = String::from_utf8_lossy(accept.as_bytes());
    accept.trim().is_empty() || accept.split(',').any(is_text)
}

fn is_text(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let is_structured = |parameter: &str| {
        parameter
            .split_once('=')
            .is_some_and(|(name, value)| STRUCTURED.contains(&name.trim()) && !value.is_empty())
    };
    ["*", "*/*", "text/*", "text/plain"].contains(&name.as_str()) && !parts.any(is_structured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_73_who_takes_text() {
        assert!(takes_text(None));
        for (accept, takes) in [
            ("", true),
            (" ", true),
            ("text/plain", true),
            ("TEXT/Plain; charset=utf-8", true),
            ("text/*", true),
            ("*/*", true),
            ("*", true),
            ("application/json, */*", true),
            ("application/json;v=foo;g=config.k8s.io;as=Flagz,*/*", true),
            ("application/json;q=0.9, text/plain;q=0.1", true),
            ("application/json", false),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", false),
            ("application/yaml,application/xml", false),
            ("text/html", false),
            ("text", false),
            ("text/plain;as=Flagz", false),
            ("*/*;v=v1beta1;g=config.k8s.io;as=Statusz", false),
            ("text/plain;stream=watch", false),
            ("text/plain;stream=", true),
        ] {
            let header = HeaderValue::from_static(accept);
            assert_eq!(takes_text(Some(&header)), takes, "{accept:?}");
        }
    }
}
