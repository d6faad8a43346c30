//! The rewriting of `:authority`, up to the requests of a real server.

#![allow(
    clippy::cast_possible_truncation,
    reason = "the wire format is made of bytes"
)]
#![allow(clippy::single_range_in_vec_init, reason = "a range is what is found")]

mod frame;
mod hpack;
mod server;
mod wire;

/// The authority that grpc-go sends when kubelet dials a registration socket, now and before 2022.
const KUBELET: &str = "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fd.example.com-reg.sock";
const OLD_KUBELET: &str = "/var/lib/kubelet/plugins_registry/d.example.com-reg.sock";

/// A gRPC call as grpc-go writes it, with this value of `:authority`.
fn call(authority: &str) -> Vec<u8> {
    use wire::Coding::{Huffman, Plain};
    use wire::Kind::Incremental;
    use wire::Name;
    let mut block = vec![0x83, 0x86]; // :method POST, :scheme http
    let path = "/pluginregistration.Registration/GetInfo";
    wire::literal(&mut block, Incremental, &Name::Index(4), Huffman, path);
    wire::literal(&mut block, Incremental, &Name::Index(1), Huffman, authority);
    wire::literal(
        &mut block,
        Incremental,
        &Name::Index(31),
        Huffman,
        "application/grpc",
    );
    wire::literal(
        &mut block,
        Incremental,
        &Name::Index(58),
        Huffman,
        "grpc-go/1.79.1",
    );
    let te = Name::Text(Huffman, "te".into());
    wire::literal(&mut block, Incremental, &te, Huffman, "trailers");
    let timeout = Name::Text(Huffman, "grpc-timeout".into());
    wire::literal(&mut block, Incremental, &timeout, Plain, "999871u");
    block
}
