//! Our structs, the specifications' tables and the tables in docs/wire are the same.

use std::{fmt::Write as _, fs, path::PathBuf};

use serde_json::Value;
use wire::{
    glimpse::EndOfSnapshot,
    itch,
    layout::{Field, Layout},
    moldudp64::{DownstreamHeader, MessageBlockHeader, RequestPacket},
    ouch::{Inbound, Outbound, Tag},
    ouch42::{Request42, Response42},
    sluice,
    soupbintcp::{
        ClientHeartbeatPacket, DebugPacket, EndOfSessionPacket, LoginAcceptedPacket,
        LoginRejectedPacket, LoginRequestPacket, LogoutRequestPacket, SequencedDataPacket,
        ServerHeartbeatPacket, UnsequencedDataPacket,
    },
};

use crate::golden::same_name;

type Table = (String, &'static str, &'static [Field]);

fn table<T: Layout>(key: &str) -> Table {
    (key.to_owned(), T::NAME, T::FIELDS)
}

fn keyed(prefix: &str, tables: &[(u8, &'static str, &'static [Field])]) -> Vec<Table> {
    let key = |code: &u8| format!("{prefix}{}", char::from(*code));
    tables.iter().map(|(code, name, fields)| (key(code), *name, *fields)).collect()
}

fn ouch_inbound() -> Vec<Table> {
    keyed("in:", Inbound::TABLES)
}

fn ouch_outbound() -> Vec<Table> {
    keyed("out:", Outbound::TABLES)
}

fn ouch42_inbound() -> Vec<Table> {
    keyed("in:", Request42::TABLES)
}

fn ouch42_outbound() -> Vec<Table> {
    keyed("out:", Response42::TABLES)
}

fn itch_tables() -> Vec<Table> {
    keyed("", itch::Message::TABLES)
}

fn soupbintcp_tables() -> Vec<Table> {
    vec![
        table::<DebugPacket>("+"),
        table::<LoginAcceptedPacket>("A"),
        table::<LoginRejectedPacket>("J"),
        table::<SequencedDataPacket>("S"),
        table::<ServerHeartbeatPacket>("H"),
        table::<EndOfSessionPacket>("Z"),
        table::<LoginRequestPacket>("L"),
        table::<UnsequencedDataPacket>("U"),
        table::<ClientHeartbeatPacket>("R"),
        table::<LogoutRequestPacket>("O"),
    ]
}

fn sluice_tables() -> Vec<Table> {
    vec![
        table::<sluice::HelloPacket>("H"),
        table::<sluice::TokenPacket>("T"),
        table::<sluice::LoginRequestPacket>("L"),
        table::<sluice::LoginAcceptedPacket>("A"),
        table::<sluice::LoginRejectedPacket>("J"),
        table::<sluice::MessagesPacket>("U"),
        table::<sluice::ClientHeartbeatPacket>("R"),
        table::<sluice::ResendRequestPacket>("Q"),
        table::<sluice::LogoutRequestPacket>("O"),
        table::<sluice::DebugPacket>("+"),
    ]
}

fn moldudp64_tables() -> Vec<Table> {
    vec![
        table::<DownstreamHeader>("downstream"),
        table::<MessageBlockHeader>("block"),
        table::<RequestPacket>("request"),
    ]
}

/// The type's name in the layout file for a type of ours.
fn layout_kind(kind: &str) -> &str {
    match kind {
        "Char" => "c",
        "U16" => "u16",
        "U32" => "u32",
        "U64" => "u64",
        "Price32" => "p4",
        "Price64" => "P4",
        "Level64" => "P8",
        "Nanos48" => "ts6",
        "Nanos64" => "ts",
        _ if kind.starts_with("Alpha") => "a",
        _ => panic!("no layout type for {kind}"),
    }
}

/// Every struct has the fields of its layout: name, place, length and type.
#[test]
fn structs_are_the_layouts() {
    let layouts: Value = serde_json::from_str(include_str!("golden/layouts.json")).unwrap();
    let ouch = [ouch_inbound(), ouch_outbound()].concat();
    for (protocol, tables) in [
        ("ouch50", ouch),
        ("itch50", itch_tables()),
        ("soupbintcp", soupbintcp_tables()),
        ("moldudp64", moldudp64_tables()),
    ] {
        let layouts = layouts[protocol].as_object().unwrap();
        let ours = usize::from(protocol == "itch50");
        assert_eq!(layouts.len(), tables.len() - ours, "{protocol}");
        for (key, name, fields) in tables {
            // Our own.
            if protocol == "itch50" && key == "p" {
                continue;
            }
            let layout = &layouts[&key];
            assert_eq!(layout["name"].as_str(), Some(name), "{protocol} {key}");
            let rows = layout["fields"].as_array().unwrap();
            // Texts of any length are not part of our structs.
            let rows: Vec<_> = rows.iter().filter(|row| row[2] != 0).collect();
            assert_eq!(rows.len(), fields.len(), "{protocol} {key}");
            for (field, row) in fields.iter().zip(rows) {
                let [theirs, offset, len, kind] = [&row[0], &row[1], &row[2], &row[3]];
                let context = format!("{protocol} {key} {}", field.name);
                assert_eq!(offset.as_u64(), u64::try_from(field.offset).ok(), "{context}");
                assert_eq!(len.as_u64(), u64::try_from(field.len).ok(), "{context}");
                if kind != "T" {
                    assert!(same_name(field.name, theirs.as_str().unwrap()), "{context}");
                    assert_eq!(kind.as_str(), Some(layout_kind(field.kind)), "{context}");
                }
            }
            let last = fields.last().unwrap();
            assert_eq!(
                layout["fixed_len"].as_u64(),
                u64::try_from(last.offset + last.len).ok(),
                "{protocol} {key}"
            );
        }
    }
}

/// Every tag has the length of its layout and comes on the messages that its layout names.
#[test]
fn tags_are_the_layouts() {
    let layouts: Value = serde_json::from_str(include_str!("golden/layouts.json")).unwrap();
    let layouts = layouts["ouch50_tags"].as_object().unwrap();
    assert_eq!(layouts.len(), Tag::ALL.len());
    for tag in Tag::ALL {
        let layout = &layouts[&tag.code().to_string()];
        let name = layout["name"].as_str().unwrap();
        assert!(tag.name().eq_ignore_ascii_case(name), "{tag:?} {name}");
        assert_eq!(layout["len"].as_u64(), u64::try_from(tag.len()).ok(), "{tag:?}");
        assert_eq!(Tag::from_code(tag.code()), Some(*tag));
        let mut theirs: Vec<_> = layout["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key.as_str().unwrap())
            .collect();
        let inbound = tag.inbound().iter().map(|code| format!("in:{}", char::from(*code)));
        let outbound = tag.outbound().iter().map(|code| format!("out:{}", char::from(*code)));
        let mut ours: Vec<_> = inbound.chain(outbound).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{tag:?}");
    }
}

/// The tables in docs/wire are those of the structs. `BLESS=1` writes them.
#[test]
fn docs_are_the_structs() {
    let mut stale = String::new();
    for (file, tables) in [
        ("ouch.md", [ouch_inbound(), ouch_outbound()].concat()),
        ("ouch42.md", [ouch42_inbound(), ouch42_outbound()].concat()),
        ("itch.md", itch_tables()),
        ("soupbintcp.md", soupbintcp_tables()),
        ("moldudp64.md", moldudp64_tables()),
        ("sluice.md", sluice_tables()),
        ("glimpse.md", vec![table::<EndOfSnapshot>("G")]),
    ] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut fresh = text.clone();
        for (key, name, fields) in tables {
            let start = format!("<!-- {key} -->\n");
            let at = fresh.find(&start).unwrap_or_else(|| panic!("{file}: no table {key} {name}"));
            let at = at + start.len();
            let end = fresh[at..].find("\n\n").map_or(fresh.len(), |len| at + len + 1);
            fresh.replace_range(at..end, &rendered(fields));
        }
        if fresh != text {
            writeln!(stale, "{file}").unwrap();
            if std::env::var_os("BLESS").is_some() {
                fs::write(&path, fresh).unwrap();
            }
        }
    }
    assert!(stale.is_empty(), "tables differ, write them with BLESS=1: {stale}");
}

fn rendered(fields: &[Field]) -> String {
    let mut table =
        String::from("| offset | bytes | type | field | notes |\n|--:|--:|---|---|---|\n");
    for field in fields {
        let Field { name, kind, offset, len, note } = field;
        writeln!(table, "| {offset} | {len} | {} | {name} | {note} |", rendered_kind(kind))
            .unwrap();
    }
    table
}

fn rendered_kind(kind: &str) -> &str {
    match kind {
        "Char" => "char",
        "U16" => "u16",
        "U32" => "u32",
        "U64" => "u64",
        "Price32" => "u32 price, 4 decimals",
        "Price64" => "u64 price, 4 decimals",
        "Level64" => "u64 level, 8 decimals",
        "Nanos48" => "u48 ns since midnight",
        "Nanos64" => "u64 ns since midnight",
        _ if kind.starts_with("Alpha") => "alpha",
        _ => panic!("no printed name for {kind}"),
    }
}
