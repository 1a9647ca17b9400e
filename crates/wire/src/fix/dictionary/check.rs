//! Compares a message with the tables of the dictionary, through tables that are indexed by tag.
//!
//! Invariant: each lookup returns a row of the dictionary, and every row is found.

use super::{
    FIELDS, FieldRow, GROUPS, HEADER, Kind, MESSAGES, MessageRow, TAG_50_MIN, USER_DEFINED,
};
use crate::fix::{Fault, Message, SessionReject, Version, message::unsigned, time};

/// Every tag of the tables is below this one.
pub(in crate::fix) const TAGS_END: usize = 1408;

/// Some of the tags of the tables.
#[derive(Clone, Copy)]
pub(super) struct TagSet([u64; TAGS_END / 64]);

impl TagSet {
    pub(super) const EMPTY: Self = Self([0; TAGS_END / 64]);

    pub(super) const fn with(mut self, tags: &[u32]) -> Self {
        let mut index = 0;
        while index < tags.len() {
            self.insert(tags[index]);
            index += 1;
        }
        self
    }

    /// Adds a tag; true if it was not in the set.
    const fn insert(&mut self, tag: u32) -> bool {
        let word = &mut self.0[tag as usize / 64];
        let is_new = *word & 1 << (tag % 64) == 0;
        *word |= 1 << (tag % 64);
        is_new
    }

    const fn has(&self, tag: u32) -> bool {
        self.0[tag as usize / 64] & 1 << (tag % 64) != 0
    }

    /// True if the set has all tags of the other.
    fn includes(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(all, some)| some & !all == 0)
    }
}

/// No row.
const NONE: u8 = u8::MAX;

/// The index in [`FIELDS`] of each tag.
static FIELD_OF_TAG: [u8; TAGS_END] = {
    assert!(FIELDS.len() < NONE as usize);
    let mut table = [NONE; TAGS_END];
    let mut index = 0;
    while index < FIELDS.len() {
        table[FIELDS[index].tag as usize] = index as u8;
        index += 1;
    }
    table
};

/// The listed values of each field with values of one character, each as the bit of its code.
static CODES: [u128; FIELDS.len()] = {
    let mut table = [0; FIELDS.len()];
    let mut index = 0;
    while index < FIELDS.len() {
        let values = FIELDS[index].values.as_bytes();
        let mut at = 0;
        while at < values.len() {
            let is_start = at == 0 || values[at - 1] == b' ';
            let is_end = at + 1 == values.len() || values[at + 1] == b' ';
            if is_start && is_end {
                table[index] |= 1 << values[at];
            }
            at += 1;
        }
        index += 1;
    }
    table
};

/// Every MsgType of the tables is a character below this one.
const TYPES_END: usize = 128;

/// The index in [`MESSAGES`] of each MsgType.
static MESSAGE_OF_TYPE: [u8; TYPES_END] = {
    let mut table = [NONE; TYPES_END];
    let mut index = 0;
    while index < MESSAGES.len() {
        let msg_type = MESSAGES[index].msg_type.as_bytes();
        assert!(msg_type.len() == 1);
        table[msg_type[0] as usize] = index as u8;
        index += 1;
    }
    table
};

/// For each message of [`MESSAGES`], the index in [`FIELDS`] of each tag that it may have.
static ALLOWED: [[u8; TAGS_END]; MESSAGES.len()] = {
    let mut table = [[NONE; TAGS_END]; MESSAGES.len()];
    let mut index = 0;
    while index < MESSAGES.len() {
        let allowed = MESSAGES[index].allowed();
        let mut tag = 0;
        while tag < TAGS_END {
            if allowed.has(tag as u32) {
                table[index][tag] = FIELD_OF_TAG[tag];
            }
            tag += 1;
        }
        index += 1;
    }
    table
};

/// The tags that each message of [`MESSAGES`] must have in each version, by the version's number.
static REQUIRED: [[TagSet; Version::ALL.len()]; MESSAGES.len()] = {
    let mut table = [[TagSet::EMPTY; Version::ALL.len()]; MESSAGES.len()];
    let mut index = 0;
    while index < MESSAGES.len() {
        let mut version = 0;
        while version < Version::ALL.len() {
            let required = match MESSAGES[index].required(Version::ALL[version]) {
                Some(required) => required,
                None => &[],
            };
            table[index][version] = TagSet::EMPTY.with(HEADER).with(required);
            version += 1;
        }
        index += 1;
    }
    table
};

/// The field of a tag.
#[must_use]
pub fn field(tag: u32) -> Option<&'static FieldRow> {
    FIELDS.get(usize::from(*FIELD_OF_TAG.get(tag as usize)?))
}

/// The message of a type; `None` if the version has none.
#[must_use]
pub fn message(msg_type: &[u8], version: Version) -> Option<&'static MessageRow> {
    let row = MESSAGES.get(place(msg_type)?)?;
    row.required(version).map(|_| row)
}

/// The index of a message in [`MESSAGES`], or one beyond its end.
fn place(msg_type: &[u8]) -> Option<usize> {
    let &[code] = msg_type else { return None };
    MESSAGE_OF_TYPE.get(usize::from(code)).map(|index| usize::from(*index))
}

/// The data field whose length this field has.
#[inline]
pub(in crate::fix) fn data_tag(tag: u32) -> Option<u32> {
    Some(match tag {
        // Nearly all.
        ..90 => return None,
        90 => 91,
        93 => 89,
        95 => 96,
        212 => 213,
        354 => 355,
        _ => return None,
    })
}

/// Compares a message with its row: every field known, allowed, once, of its type; none missing.
///
/// # Errors
/// The first fault.
///
/// # Panics
/// The row is not of [`MESSAGES`].
pub fn check(message: &Message<'_>, row: &MessageRow, version: Version) -> Result<(), Fault> {
    if let Some(fault) = message.fault() {
        return Err(fault);
    }
    let index = place(row.msg_type.as_bytes()).expect("a row of the table");
    let allowed = &ALLOWED[index];
    let mut seen = TagSet::EMPTY;
    for (tag, value) in message.fields() {
        let fault = |reason| Err(Fault { tag, reason });
        let is_later = TAG_50_MIN <= tag && version != Version::Fix50Sp1;
        let known = allowed.get(tag as usize).and_then(|index| FIELDS.get(usize::from(*index)));
        let Some(known) = known.filter(|_| !is_later) else {
            if USER_DEFINED.contains(&tag) {
                continue;
            }
            let is_known = field(tag).is_some() && !is_later;
            return fault(match is_known {
                true => SessionReject::TagNotForMessage,
                false => SessionReject::UndefinedTag,
            });
        };
        if !seen.insert(tag) {
            let mut groups = GROUPS.iter().filter(|(_, _, members)| members.contains(&tag));
            if !groups.any(|(count, ..)| message.get(*count).is_some()) {
                return fault(SessionReject::Repeated);
            }
        }
        if let Err(reason) = check_value(known, value) {
            return fault(reason);
        }
        let group = || GROUPS.iter().find(|(count, ..)| *count == tag);
        if let Some((_, first, _)) = (known.kind == Kind::Count).then(group).flatten() {
            let entries = message.fields().filter(|(it, _)| it == first).count();
            if unsigned(value) != Some(entries as u64) {
                return fault(SessionReject::GroupCount);
            }
        }
    }
    if seen.includes(&REQUIRED[index][version as usize]) {
        return Ok(());
    }
    let required = row.required(version).unwrap_or_default();
    match HEADER.iter().chain(required).find(|tag| !seen.has(**tag)) {
        Some(tag) => Err(Fault { tag: *tag, reason: SessionReject::RequiredTagMissing }),
        None => Ok(()),
    }
}

fn check_value(field: &FieldRow, value: &[u8]) -> Result<(), SessionReject> {
    let is_formed = match field.kind {
        Kind::Text | Kind::Data => true,
        Kind::Char => value.len() == 1,
        Kind::Chars => value.split(|byte| *byte == b' ').all(|part| part.len() == 1),
        Kind::Bool => matches!(value, b"Y" | b"N"),
        Kind::Number | Kind::Count | Kind::Length => unsigned(value).is_some(),
        Kind::Decimal => is_decimal(value),
        Kind::Time => time::read_time(value).is_some(),
        Kind::Date => time::read_date(value).is_some(),
    };
    if !is_formed {
        return Err(SessionReject::WrongFormat);
    }
    let is_allowed = field.values.is_empty()
        || match field.kind {
            Kind::Chars => value.split(|byte| *byte == b' ').all(|part| is_listed(field, part)),
            _ => is_listed(field, value),
        };
    if is_allowed { Ok(()) } else { Err(SessionReject::ValueOutOfRange) }
}

/// True if a value stands among those of its field.
fn is_listed(field: &FieldRow, value: &[u8]) -> bool {
    if let [code] = value {
        let codes = CODES[usize::from(FIELD_OF_TAG[field.tag as usize])];
        return code.is_ascii() && codes & 1 << code != 0;
    }
    field.values.as_bytes().split(|byte| *byte == b' ').any(|listed| listed == value)
}

/// Digits with at most one point among them, perhaps after a minus.
fn is_decimal(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let mut points = 0;
    for byte in digits {
        match byte {
            b'0'..=b'9' => {}
            b'.' => points += 1,
            _ => return false,
        }
    }
    points <= 1 && points < digits.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A code is a value of a field exactly if it stands alone in its list.
    #[test]
    fn codes_are_those_of_the_lists() {
        for field in FIELDS {
            for code in 0..=u8::MAX {
                let listed = field.values.as_bytes().split(|byte| *byte == b' ');
                let is_alone =
                    !field.values.is_empty() && listed.into_iter().any(|it| it == [code]);
                assert_eq!(is_listed(field, &[code]), is_alone, "{} {code}", field.name);
            }
        }
    }
}
