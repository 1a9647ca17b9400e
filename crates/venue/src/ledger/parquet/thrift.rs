//! As much of Thrift's compact protocol as the headers of Parquet need.

/// A field of a struct.
pub(super) enum Field {
    Bool(bool),
    I8(i8),
    I32(i32),
    I64(i64),
    Text(String),
    Struct(Struct),
    I32s(Vec<i32>),
    Texts(Vec<String>),
    Structs(Vec<Struct>),
}

impl Field {
    /// Its type, as the head of a field has it.
    fn code(&self) -> u8 {
        match self {
            Self::Bool(true) => 1,
            Self::Bool(false) => 2,
            Self::I8(_) => 3,
            Self::I32(_) => 5,
            Self::I64(_) => 6,
            Self::Text(_) => 8,
            Self::I32s(_) | Self::Texts(_) | Self::Structs(_) => 9,
            Self::Struct(_) => 12,
        }
    }
}

/// Fields, encoded.
#[derive(Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a field; they come in the order of their numbers.
    pub(super) fn put(&mut self, number: u8, field: Field) {
        let step = number - self.last;
        assert!(0 < step && step < 16, "fields come in order");
        self.last = number;
        let bytes = &mut self.bytes;
        bytes.push(step << 4 | field.code());
        match field {
            // Its type is its value.
            Field::Bool(_) => {}
            Field::I8(number) => bytes.push(number.cast_unsigned()),
            Field::I32(number) => put_integer(bytes, number.into()),
            Field::I64(number) => put_integer(bytes, number),
            Field::Text(text) => put_text(bytes, &text),
            Field::Struct(it) => bytes.extend(it.into_bytes()),
            Field::I32s(numbers) => {
                put_list(bytes, 5, numbers.len());
                numbers.into_iter().for_each(|number| put_integer(bytes, number.into()));
            }
            Field::Texts(texts) => {
                put_list(bytes, 8, texts.len());
                texts.iter().for_each(|text| put_text(bytes, text));
            }
            Field::Structs(all) => {
                put_list(bytes, 12, all.len());
                all.into_iter().for_each(|it| bytes.extend(it.into_bytes()));
            }
        }
    }

    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

/// Seven bits a byte, the lowest first.
fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Zigzag: numbers near 0 are short, whatever their sign.
fn put_integer(bytes: &mut Vec<u8>, number: i64) {
    put_number(bytes, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn put_list(bytes: &mut Vec<u8>, code: u8, len: usize) {
    if len < 15 {
        bytes.push((len as u8) << 4 | code);
    } else {
        bytes.push(0xf0 | code);
        put_number(bytes, len as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, signs, lists short and long are as the protocol's specification has them.
    #[test]
    fn fields_are_bytes() {
        let mut it = Struct::new();
        it.put(1, Field::I32(-1));
        it.put(2, Field::I64(150));
        it.put(4, Field::Bool(true));
        it.put(5, Field::Bool(false));
        it.put(6, Field::I8(-2));
        it.put(7, Field::Text("ab".into()));
        it.put(8, Field::I32s(vec![1; 15]));
        let mut wanted = vec![0x15, 1, 0x16, 0xac, 0x02, 0x21, 0x12, 0x13, 0xfe, 0x18, 2];
        wanted.extend(b"ab\x19\xf5\x0f");
        wanted.extend([2; 15]);
        wanted.push(0);
        assert_eq!(it.into_bytes(), wanted);
    }
}
