//! Writes a table per service with the request and response messages of its methods.
//!
//! One table per service, so that a program only links the messages of the services it calls.

use std::fmt::Write as _;

use heck::{ToShoutySnakeCase, ToUpperCamelCase};
use prost_types::{FileDescriptorSet, MethodDescriptorProto};

/// The module `methods` of `package`; it contains no streaming methods.
pub(crate) fn tables(set: &FileDescriptorSet, package: &str) -> String {
    let mut code =
        String::from("/// Messages of each service's unary methods.\npub mod methods {\n");
    for file in set.file.iter().filter(|file| file.package() == package) {
        for service in &file.service {
            let name = service.name();
            let table = name.to_shouty_snake_case();
            let _ = writeln!(
                code,
                "    pub const {table}: &[crate::sanitize::Method] = &["
            );
            for method in service.method.iter().filter(|method| is_unary(method)) {
                let request = message(method.input_type(), package);
                let response = message(method.output_type(), package);
                let path = format!("/{package}.{name}/{}", method.name());
                let _ = writeln!(
                    code,
                    "        crate::sanitize::Method::new::<super::{request}, super::{response}>(\"{path}\"),"
                );
            }
            code.push_str("    ];\n");
        }
    }
    code.push_str("}\n");
    code
}

fn is_unary(method: &MethodDescriptorProto) -> bool {
    !method.client_streaming() && !method.server_streaming()
}

fn message(type_name: &str, package: &str) -> String {
    let name = type_name.trim_start_matches('.');
    let name = name.strip_prefix(package).unwrap_or(name);
    name.trim_start_matches('.').to_upper_camel_case()
}
