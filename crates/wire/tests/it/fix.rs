//! FIX messages: golden bytes, faults one by one, and random bytes.

use std::{fmt::Write as _, fs, path::PathBuf};

use market::Timestamp;
use serde_json::Value;
use wire::fix::{
    Builder, Fields, Framed, MESSAGE_LEN_MAX, SessionReject, Version,
    dictionary::{self, Direction, FIELDS, MESSAGES},
    frame, read_time,
};

use crate::seeded::{Seeded, for_seeds};

/// The bytes of a message written with `|` for SOH.
pub fn bytes(text: &str) -> Vec<u8> {
    text.replace('|', "\x01").into_bytes()
}

/// A message of these fields, framed.
pub fn framed(version: Version, body: &str) -> Vec<u8> {
    let mut buffer = [0; 2 * MESSAGE_LEN_MAX];
    let mut builder = Builder::new(&mut buffer);
    builder.fields(&bytes(body));
    builder.finish(version).to_vec()
}

fn checked(message: &[u8]) -> Result<(), (u32, SessionReject)> {
    assert_eq!(frame(message), Framed::Whole(message.len()));
    let mut fields = Fields::default();
    let read = fields.read(message);
    let version = Version::from_begin_string(read.begin_string()).unwrap();
    let row = dictionary::message(read.msg_type(), version).unwrap();
    dictionary::check(&read, row, version).map_err(|fault| (fault.tag, fault.reason))
}

/// Each golden message has the right frame, agrees with the dictionary, and is written again unchanged.
#[test]
fn golden_messages_are_read_and_written() {
    let vectors: Value = serde_json::from_str(include_str!("golden/fix.json")).unwrap();
    let vectors = vectors.as_array().unwrap();
    assert_eq!(vectors.len(), 24);
    for vector in vectors {
        let id = vector["id"].as_str().unwrap();
        let message = bytes(vector["fix"].as_str().unwrap());
        assert_eq!(checked(&message), Ok(()), "{id}");
        let mut fields = Fields::default();
        let read = fields.read(&message);
        let mut buffer = [0; 1024];
        let mut builder = Builder::new(&mut buffer);
        for (tag, value) in read.fields().filter(|(tag, _)| !matches!(tag, 8..=10)) {
            match (dictionary::field(tag).unwrap().kind, value) {
                (dictionary::Kind::Time, value) => {
                    builder.time(tag, read_time(value).unwrap());
                }
                (dictionary::Kind::Decimal, value) => {
                    let text = str::from_utf8(value).unwrap();
                    builder.decimal(tag, market::parse_decimal(text, 6).unwrap(), 6);
                }
                (dictionary::Kind::Number, value) => {
                    builder.number(tag, str::from_utf8(value).unwrap().parse().unwrap());
                }
                (_, value) => {
                    builder.bytes(tag, value);
                }
            }
        }
        let version = Version::from_begin_string(read.begin_string()).unwrap();
        let written = builder.finish(version).to_vec();
        // The price 150.30 is written without its last zero.
        if id != "44/D limit ioc" {
            assert_eq!(written, message, "{id}");
        }
    }
}

const ORDER: &str = "35=D|34=2|49=CLIENT|52=20261121-14:30:00.000|56=EXCH|11=ORD1|21=1|55=AAPL|54=1|\
                     60=20261121-14:30:00|38=100|40=2|44=150.34|59=0|";

/// Each kind of fault is found, with its tag.
#[test]
fn each_fault_is_named() {
    let order = |from: &str, to: &str| {
        assert!(ORDER.contains(from), "{from}");
        checked(&framed(Version::Fix42, &ORDER.replace(from, to)))
    };
    assert_eq!(order("21=1", "21=1"), Ok(()));
    assert_eq!(order("59=0|", "59=0|9000=any|"), Ok(()), "the tag is the user's");
    assert_eq!(order("59=0|", "059=0|"), Err((0, SessionReject::InvalidTagNumber)));
    assert_eq!(order("59=0|", "59|"), Err((0, SessionReject::InvalidTagNumber)));
    assert_eq!(order("59=0|", "-59=0|"), Err((0, SessionReject::InvalidTagNumber)));
    assert_eq!(order("11=ORD1|", ""), Err((11, SessionReject::RequiredTagMissing)));
    assert_eq!(
        order("52=20261121-14:30:00.000|", ""),
        Err((52, SessionReject::RequiredTagMissing))
    );
    assert_eq!(order("59=0|", "59=0|112=x|"), Err((112, SessionReject::TagNotForMessage)));
    assert_eq!(order("59=0|", "59=0|4999=x|"), Err((4999, SessionReject::UndefinedTag)));
    assert_eq!(order("59=0|", "59=|"), Err((59, SessionReject::NoValue)));
    assert_eq!(order("54=1", "54=Z"), Err((54, SessionReject::ValueOutOfRange)));
    assert_eq!(order("38=100", "38=1e2"), Err((38, SessionReject::WrongFormat)));
    assert_eq!(order("54=1", "54=11"), Err((54, SessionReject::WrongFormat)));
    assert_eq!(order("59=0|", "59=0|59=0|"), Err((59, SessionReject::Repeated)));
    assert_eq!(
        order("59=0|", "59=0|453=2|448=a|447=D|452=1|"),
        Err((453, SessionReject::GroupCount))
    );
    assert_eq!(order("59=0|", "59=0|453=2|448=a|452=1|448=b|452=2|"), Ok(()));
    assert_eq!(order("21=1|", ""), Err((21, SessionReject::RequiredTagMissing)));
    assert_eq!(checked(&framed(Version::Fix44, &ORDER.replace("21=1|", ""))), Ok(()));
    assert!(dictionary::message(b"q", Version::Fix42).is_none());
    assert!(dictionary::message(b"q", Version::Fix44).is_some());
    assert_eq!(SessionReject::Repeated.code(Version::Fix42), None);
    assert_eq!(SessionReject::Repeated.code(Version::Fix44), Some(13));
}

/// A field of data may contain SOH, and its content is not read as another field.
#[test]
fn data_contains_soh() {
    let logon = "35=A|34=1|49=C|52=20261121-14:30:00|56=E|98=0|108=30|95=9|96=ab|10=c|d|";
    let message = framed(Version::Fix42, logon);
    assert_eq!(checked(&message), Ok(()));
    let mut fields = Fields::default();
    let read = fields.read(&message);
    assert_eq!(read.get(96), Some(&b"ab\x0110=c\x01d"[..]));
    assert_eq!(read.fields().filter(|(tag, _)| *tag == 10).count(), 1);
    for wrong in ["95=8|", "95=10|", "95=9999|", "95=0|"] {
        let message = framed(Version::Fix42, &logon.replace("95=9|", wrong));
        assert!(checked(&message).is_err(), "{wrong}");
    }
    let message = framed(Version::Fix42, &logon.replace("96=ab|10=c|d|", ""));
    assert!(checked(&message).is_err(), "the data is missing");
}

/// A message that is cut is partial; one with any other byte in it is garbled, and the next one is found.
#[test]
fn cut_and_changed_messages() {
    let message = framed(Version::Fix44, ORDER);
    for len in 0..message.len() {
        assert_eq!(frame(&message[..len]), Framed::Partial, "{len}");
    }
    let two = [&message[..], &message].concat();
    for at in 0..message.len() {
        let mut changed = two.clone();
        changed[at] ^= 1;
        let mut rest = &changed[..];
        let mut whole = 0;
        while let framed @ (Framed::Whole(len) | Framed::Garbled(len)) = frame(rest) {
            whole += usize::from(matches!(framed, Framed::Whole(_)));
            rest = &rest[len..];
            if rest.is_empty() {
                break;
            }
        }
        // A longer BodyLength waits for bytes that the second message then is part of.
        assert!(whole == 1 || whole == 0 && (12..=15).contains(&at), "{whole} with {at} changed");
    }
    let long = framed(Version::Fix44, &format!("{ORDER}58={}|", "x".repeat(MESSAGE_LEN_MAX)));
    assert!(matches!(frame(&long), Framed::Garbled(_)), "it is too long");
}

/// No bytes make the reader panic or stop without progress.
#[test]
fn random_bytes_are_read() {
    for_seeds(300, |seeded| {
        let mut stream = Vec::new();
        for _ in 0..20 {
            match seeded.below(4) {
                0 => stream.extend(seeded.bytes(40)),
                1 => stream.extend(framed(Version::Fix42, ORDER)),
                2 => stream.extend(bytes("8=FIX.4.2|9=5|35=0|10=161|")),
                _ => stream.extend(framed(Version::Fix44, &random_body(seeded))),
            }
            if seeded.once_in(2) {
                let at = seeded.below(stream.len());
                stream[at] = *seeded.pick(b"\x01=1098F3\xff");
            }
        }
        let mut rest = &stream[..];
        while !rest.is_empty() {
            match frame(rest) {
                Framed::Partial => break,
                Framed::Garbled(len) => rest = &rest[len..],
                Framed::Whole(len) => {
                    let mut fields = Fields::default();
                    let read = fields.read(&rest[..len]);
                    for version in Version::ALL {
                        for row in MESSAGES {
                            let _ = dictionary::check(&read, row, version);
                        }
                    }
                    rest = &rest[len..];
                }
            }
        }
    });
}

fn random_body(seeded: &mut Seeded) -> String {
    let mut body = "35=D|".to_owned();
    for _ in 0..seeded.below(200) {
        let tag = seeded.pick(FIELDS).tag;
        let value =
            *seeded.pick(&["", "1", "Y", "AAPL", "-1.5", "20261121-14:30:00", "9999999999"]);
        write!(body, "{tag}={value}|").unwrap();
    }
    body
}

/// Numbers and moments are read and written alike.
#[test]
fn values_go_both_ways() {
    for_seeds(200, |seeded| {
        let units = u128::from(seeded.next() >> seeded.below(64)) << seeded.below(40);
        let mut buffer = [0; 256];
        let mut builder = Builder::new(&mut buffer);
        builder.text(35, "D").decimal(44, units, 4).number(34, seeded.next());
        builder.time(60, Timestamp(seeded.next() >> 2));
        let message = builder.finish(Version::Fix44);
        assert_eq!(frame(message), Framed::Whole(message.len()));
        let mut fields = Fields::default();
        let read = fields.read(message);
        let price = str::from_utf8(read.get(44).unwrap()).unwrap();
        assert_eq!(market::parse_decimal(price, 4), Ok(units));
        assert!(!price.contains('.') || !price.ends_with('0'), "{price}");
    });
}

/// Tags rise, every tag of a message is in the dictionary, and no message has one twice.
#[test]
fn the_dictionary_is_consistent() {
    assert!(FIELDS.is_sorted_by(|one, other| one.tag < other.tag));
    for row in MESSAGES {
        let mut tags: Vec<u32> = [row.required_44, row.optional].concat();
        tags.sort_unstable();
        assert!(tags.is_sorted_by(|one, other| one < other), "{} has a tag twice", row.name);
        for tag in tags.iter().chain(row.required_42.unwrap_or_default()) {
            assert!(dictionary::field(*tag).is_some(), "{} of {}", tag, row.name);
        }
    }
}

/// The tables in docs/wire/fix.md are those of the dictionary. `BLESS=1` writes them.
#[test]
fn fix_docs_are_the_dictionary() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/wire/fix.md");
    let text = fs::read_to_string(&path).unwrap();
    let start = "<!-- messages -->\n";
    let at = text.find(start).expect("fix.md has the place of the messages") + start.len();
    let mut fresh = text[..at].to_owned();
    for row in MESSAGES {
        let direction = match row.direction {
            Direction::Both => "both ways",
            Direction::ToVenue => "to us",
            Direction::FromVenue => "from us",
        };
        write!(fresh, "\n### `{}` {} - {direction}\n\n", row.msg_type, row.name).unwrap();
        fresh.push_str(
            "| tag | name | type | 4.2 | 4.4 | 5.0 SP1 | values |\n|--:|---|---|---|---|---|---|\n",
        );
        let mut tags: Vec<u32> = [row.required_44, row.optional].concat();
        tags.extend(row.required_42.unwrap_or_default());
        tags.extend(row.required(Version::Fix50Sp1).unwrap_or_default());
        tags.sort_unstable();
        tags.dedup();
        for tag in tags {
            let field = dictionary::field(tag).unwrap();
            let need = |version| match row.required(version) {
                None => "-",
                Some(_) if 1024 <= tag && version != Version::Fix50Sp1 => "-",
                Some(required) if required.contains(&tag) => "required",
                Some(_) => "optional",
            };
            let [old, new, newest] = Version::ALL.map(need);
            let kind = format!("{:?}", field.kind).to_lowercase();
            let values = field.values;
            writeln!(
                fresh,
                "| {tag} | {} | {kind} | {old} | {new} | {newest} | {values} |",
                field.name
            )
            .unwrap();
        }
    }
    if fresh != text && std::env::var_os("BLESS").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    assert!(fresh == text, "the tables differ, write them with BLESS=1");
}

/// Numbers and decimals of every size are written as the standard library writes them.
#[test]
fn numbers_are_written_as_by_the_standard_library() {
    for_seeds(20, |seeded| {
        for _ in 0..2_000 {
            let wide = u128::from(seeded.next()) << 64 | u128::from(seeded.next());
            let units = wide >> seeded.below(128);
            let number = seeded.next() >> seeded.below(64);
            let decimals = seeded.below(20) as u8;
            let mut buffer = [0; 1_024];
            let mut builder = Builder::new(&mut buffer);
            builder.text(35, "8").number(34, number).decimal(44, units, decimals);
            let message = builder.finish(Version::Fix44);
            let mut fields = Fields::default();
            let read = fields.read(message);
            assert_eq!(read.get(34).unwrap(), number.to_string().as_bytes());
            let one = 10_u128.pow(decimals.into());
            let mut price =
                format!("{}.{:0width$}", units / one, units % one, width = decimals.into());
            if units % one == 0 {
                price.truncate(price.find('.').unwrap());
            }
            let price = if price.contains('.') { price.trim_end_matches('0') } else { &price };
            assert_eq!(read.get(44).unwrap(), price.as_bytes());
        }
    });
}

/// A tag has up to nine digits, of which the first is not 0; the rest of the fields are still read.
#[test]
fn tags_are_numbers() {
    for (field, tag) in [
        ("1=a", Some(1)),
        ("999999999=a", Some(999_999_999)),
        ("1234567890=a", None),
        ("01=a", None),
        ("0=a", None),
        ("=a", None),
        ("a=a", None),
        ("1a=a", None),
        ("-1=a", None),
        ("1", None),
        ("", None),
    ] {
        let message = bytes(&format!("8=FIX.4.4|9=5|35=0|{field}|58=b|"));
        let mut fields = Fields::default();
        let read = fields.read(&message);
        let tags: Vec<_> = read.fields().map(|(tag, _)| tag).collect();
        let expected: Vec<_> = [8, 9, 35].into_iter().chain(tag).chain([58]).collect();
        assert_eq!(tags, expected, "{field}");
        assert_eq!(
            read.fault().map(|fault| fault.reason),
            match tag {
                Some(_) => None,
                None => Some(SessionReject::InvalidTagNumber),
            },
            "{field}"
        );
    }
}

/// A value may have any length, and SOH ends it at any alignment.
#[test]
fn values_of_any_length_are_read() {
    for_seeds(50, |seeded| {
        for len in 1..40 {
            let value: Vec<u8> =
                (0..len).map(|_| *seeded.pick(&[0, 2, b'=', 0x81, 0x7f, 0x80, 0xff])).collect();
            let mut message = bytes("8=FIX.4.4|9=5|35=0|58=");
            message.extend_from_slice(&value);
            message.extend_from_slice(b"\x01112=");
            let mut fields = Fields::default();
            let read = fields.read(&message);
            assert_eq!(read.get(58), Some(&value[..]));
            assert_eq!(read.get(112), Some(&b""[..]));
            message.extend_from_slice(&value);
            assert_eq!(
                Fields::default().read(&message).get(112),
                Some(&value[..]),
                "without an end"
            );
        }
    });
}
