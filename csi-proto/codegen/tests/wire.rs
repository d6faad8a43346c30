//! The `.proto` files match the wire contract: every service, message, field, value and number, which fields are
//! secret, and which numbers older versions used.
//!
//! `testdata/wire.tsv` is the contract; a difference means that messages of other programs would be misread. Columns:
//! kind, name, number, type, choice, marks.

use std::path::Path;

use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, ExtensionDescriptor, FieldDescriptor, Kind,
    MessageDescriptor, MethodDescriptor,
};

struct Contract {
    pool: DescriptorPool,
    package: &'static str,
    lines: Vec<String>,
}

impl Contract {
    fn read(file: &str, package: &'static str) -> anyhow::Result<Self> {
        let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
        let mut compiler = protox::Compiler::new([&proto])?;
        compiler.include_imports(true).open_file(proto.join(file))?;
        let mut contract = Self {
            pool: compiler.descriptor_pool(),
            package,
            lines: Vec::new(),
        };
        contract.list();
        contract.lines.sort();
        contract.lines.insert(0, format!("# package {package}"));
        Ok(contract)
    }

    fn list(&mut self) {
        let pool = self.pool.clone();
        let package = self.package;
        let own = |name: &str| name == package;
        for service in pool
            .services()
            .filter(|service| own(service.package_name()))
        {
            for method in service.methods() {
                self.method(service.name(), &method);
            }
        }
        for one in pool.all_enums().filter(|one| own(one.package_name())) {
            self.enumeration(&one);
        }
        for message in pool
            .all_messages()
            .filter(|message| own(message.package_name()))
        {
            if !message.is_map_entry() {
                self.message(&message);
            }
        }
        for extension in pool.all_extensions().filter(|one| own(one.package_name())) {
            self.extension(&extension);
        }
    }

    fn push(&mut self, columns: &[&str]) {
        self.lines.push(columns.join("\t").trim_end().to_owned());
    }

    /// A name without the package.
    fn short(&self, name: &str) -> String {
        let inside = name
            .strip_prefix(self.package)
            .and_then(|rest| rest.strip_prefix('.'));
        inside.unwrap_or(name).to_owned()
    }

    fn has(&self, options: &DynamicMessage, extension: &str) -> bool {
        let extension = self
            .pool
            .get_extension_by_name(&format!("csi.v1.{extension}"));
        extension.is_some_and(|one| options.get_extension(&one).as_bool() == Some(true))
    }

    fn alpha(&self, options: &DynamicMessage, extension: &str) -> &'static str {
        if self.has(options, extension) {
            "alpha"
        } else {
            ""
        }
    }

    fn method(&mut self, service: &str, method: &MethodDescriptor) {
        let name = format!("{service}/{}", method.name());
        let streamed = |is: bool| if is { "stream " } else { "" };
        let request = streamed(method.is_client_streaming()).to_owned()
            + &self.short(method.input().full_name());
        let response = streamed(method.is_server_streaming()).to_owned()
            + &self.short(method.output().full_name());
        let alpha = self.alpha(&method.options(), "alpha_method");
        self.push(&["rpc", &name, &request, &response, alpha]);
    }

    fn enumeration(&mut self, one: &EnumDescriptor) {
        let name = self.short(one.full_name());
        self.push(&["enum", &name]);
        for value in one.values() {
            let alpha = self.alpha(&value.options(), "alpha_enum_value");
            let number = value.number().to_string();
            self.push(&["value", &format!("{name}.{}", value.name()), &number, alpha]);
        }
        for range in one.reserved_ranges() {
            self.push(&["reserved", &name, &range.start().to_string()]);
        }
    }

    fn message(&mut self, message: &MessageDescriptor) {
        let name = self.short(message.full_name());
        let alpha = self.alpha(&message.options(), "alpha_message");
        self.push(&["message", &name, alpha]);
        for field in message.fields() {
            self.field(&name, &field);
        }
        for range in message.reserved_ranges() {
            self.push(&["reserved", &name, &range.start.to_string()]);
        }
    }

    fn field(&mut self, message: &str, field: &FieldDescriptor) {
        let choice = field.containing_oneof();
        let choice = choice.map_or(String::new(), |choice| format!("oneof {}", choice.name()));
        let options = field.options();
        let mut marks = Vec::new();
        if self.has(&options, "csi_secret") {
            marks.push("csi_secret");
        }
        if self.has(&options, "alpha_field") {
            marks.push("alpha");
        }
        self.push(&[
            "field",
            &format!("{message}.{}", field.name()),
            &field.number().to_string(),
            &self.kind(field),
            &choice,
            &marks.join(","),
        ]);
    }

    fn kind(&self, field: &FieldDescriptor) -> String {
        let plain = |kind: Kind| {
            if let Some(message) = kind.as_message() {
                return self.short(message.full_name());
            }
            match kind.as_enum() {
                Some(one) => self.short(one.full_name()),
                None => format!("{kind:?}"),
            }
        };
        let kind = field.kind();
        match kind.as_message().filter(|_| field.is_map()) {
            Some(entry) => {
                let key = plain(entry.map_entry_key_field().kind());
                format!("map<{key},{}>", plain(entry.map_entry_value_field().kind()))
            }
            None if field.is_list() => format!("repeated {}", plain(kind)),
            None => plain(kind),
        }
    }

    fn extension(&mut self, extension: &ExtensionDescriptor) {
        let extended = extension.containing_message();
        let number = extension.number().to_string();
        let kind = format!("{:?}", extension.kind());
        self.push(&[
            "extension",
            extended.full_name(),
            &number,
            extension.name(),
            &kind,
        ]);
    }
}

#[test]
fn descriptors_are_the_wire_contract() -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for (file, package) in csi_codegen::FILES {
        lines.extend(Contract::read(file, package)?.lines);
    }
    let expected: Vec<&str> = include_str!("../testdata/wire.tsv").lines().collect();
    let missing: Vec<_> = expected
        .iter()
        .filter(|line| !lines.iter().any(|l| l == *line))
        .collect();
    let surplus: Vec<_> = lines
        .iter()
        .filter(|line| !expected.contains(&line.as_str()))
        .collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing: {missing:#?}\nsurplus: {surplus:#?}"
    );
    assert_eq!(lines, expected, "the order differs");
    Ok(())
}

/// The generator has found every secret, in all messages.
#[test]
fn every_secret_field_is_written_as_a_secret() -> anyhow::Result<()> {
    let wire = include_str!("../testdata/wire.tsv");
    let marked = wire
        .lines()
        .filter(|line| line.contains("csi_secret,") || line.ends_with("csi_secret"));
    let marked: Vec<_> = marked.filter(|line| line.starts_with("field")).collect();
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let mut written = 0;
    for (file, package) in csi_codegen::FILES {
        let code = csi_codegen::generate_file(&proto.join(file), &proto, package)?;
        written += code.matches("object.secret(\"").count();
    }
    assert!(!marked.is_empty());
    assert_eq!(written, marked.len());
    Ok(())
}
