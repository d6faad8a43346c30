//! Writes the log form of each message: an implementation of `Sanitize`, and a `Debug` that uses it.
//!
//! The `csi_secret` option exists in the descriptor only; prost's types lose it. Deciding here means that no later code
//! path, not even `{:?}`, can print a secret.

use std::fmt::Write as _;

use heck::{ToSnakeCase, ToUpperCamelCase};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

/// The implementations for all messages of `package`.
pub(crate) fn implementations(
    set: &FileDescriptorSet,
    package: &str,
    secrets: &[String],
) -> String {
    let mut code = String::from("// Log forms of the messages above.\n");
    for file in set.file.iter().filter(|file| file.package() == package) {
        let scope = Scope {
            package,
            secrets,
            path: Vec::new(),
        };
        for message in &file.message_type {
            scope.message(message, &mut code);
        }
    }
    code
}

struct Scope<'a> {
    package: &'a str,
    secrets: &'a [String],
    /// Names of the enclosing messages, outermost first.
    path: Vec<String>,
}

impl Scope<'_> {
    fn message(&self, message: &DescriptorProto, code: &mut String) {
        if message
            .options
            .as_ref()
            .is_some_and(|options| options.map_entry())
        {
            return;
        }
        let rust = rust_path(&self.path, message.name());
        let mut fields: Vec<_> = message.field.iter().collect();
        fields.sort_by_key(|field| field.name().to_owned());
        let body: String = fields
            .iter()
            .map(|field| self.field(message, field))
            .collect();
        let object = if body.is_empty() { "_object" } else { "object" };
        let _ = write!(
            code,
            "impl crate::sanitize::Sanitize for {rust} {{\n    \
                 fn sanitize(&self, {object}: &mut crate::sanitize::Object<'_>) {{\n{body}    }}\n\
             }}\n\
             impl ::core::fmt::Debug for {rust} {{\n    \
                 fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{\n        \
                     crate::sanitize::debug(self, f)\n    }}\n\
             }}\n"
        );
        let mut path = self.path.clone();
        path.push(message.name().to_owned());
        let inner = Scope {
            package: self.package,
            secrets: self.secrets,
            path,
        };
        for nested in &message.nested_type {
            inner.message(nested, code);
        }
        inner.oneofs(message, code);
    }

    /// A oneof is a Rust enum of its own, and a derived `Debug` would reach into its messages.
    fn oneofs(&self, message: &DescriptorProto, code: &mut String) {
        for oneof in &message.oneof_decl {
            let rust = rust_path(&self.path, oneof.name());
            let _ = write!(
                code,
                "impl ::core::fmt::Debug for {rust} {{\n    \
                     fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{\n        \
                         f.write_str(\"{}\")\n    }}\n\
                 }}\n",
                oneof.name()
            );
        }
    }

    fn field(&self, message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
        let name = field.name();
        let rust = rust_field(name);
        let full = format!("{}.{name}", self.full_name(message.name()));
        let secret = self.secrets.contains(&full);
        if let Some(index) = field.oneof_index {
            let oneof = usize::try_from(index)
                .ok()
                .and_then(|i| message.oneof_decl.get(i));
            let oneof = oneof.map_or_else(String::new, |oneof| oneof.name().to_owned());
            let mut path = self.path.clone();
            path.push(message.name().to_owned());
            let variant = format!(
                "{}::{}",
                rust_path(&path, &oneof),
                name.to_upper_camel_case()
            );
            let holder = rust_field(&oneof);
            let (bind, show) = if secret {
                ("_", "object.secret(\"NAME\", true)".replace("NAME", name))
            } else {
                ("value", self.show(message, field, "value"))
            };
            return format!(
                "        if let Some({variant}({bind})) = &self.{holder} {{\n            {show};\n        }}\n"
            );
        }
        if secret {
            return format!(
                "        object.secret(\"{name}\", crate::sanitize::Value::is_populated(&self.{rust}));\n"
            );
        }
        format!(
            "        if crate::sanitize::Value::is_populated(&self.{rust}) {{\n            {};\n        }}\n",
            self.show(message, field, &format!("&self.{rust}"))
        )
    }

    fn show(
        &self,
        _message: &DescriptorProto,
        field: &FieldDescriptorProto,
        value: &str,
    ) -> String {
        let name = field.name();
        if field.r#type() != Type::Enum {
            return format!("object.field(\"{name}\", {value})");
        }
        let relative = field.type_name().trim_start_matches('.');
        let relative = relative.strip_prefix(self.package).unwrap_or(relative);
        let parts: Vec<String> = relative
            .trim_start_matches('.')
            .split('.')
            .map(str::to_owned)
            .collect();
        let (last, path) = parts
            .split_last()
            .map_or(("", &[][..]), |(l, p)| (l.as_str(), p));
        let ty = rust_path(path, last);
        let list = if field.label() == Label::Repeated {
            "enumerations"
        } else {
            "enumeration"
        };
        format!(
            "object.{list}(\"{name}\", {value}, |n| {ty}::try_from(n).ok().map(|v| v.as_str_name()))"
        )
    }

    fn full_name(&self, message: &str) -> String {
        let mut name = self.package.to_owned();
        for part in self.path.iter().map(String::as_str).chain([message]) {
            name.push('.');
            name.push_str(part);
        }
        name
    }
}

fn rust_path(path: &[String], name: &str) -> String {
    let mut rust: String = path
        .iter()
        .map(|part| format!("{}::", part.to_snake_case()))
        .collect();
    rust.push_str(&name.to_upper_camel_case());
    rust
}

fn rust_field(name: &str) -> String {
    let reserved = ["type", "match", "ref", "mod", "move", "use", "in", "self"];
    if reserved.contains(&name) {
        format!("r#{name}")
    } else {
        name.to_owned()
    }
}
