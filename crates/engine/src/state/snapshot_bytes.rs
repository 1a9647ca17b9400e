//! Numbers and texts as bytes of a section: little-endian, without padding.

use alloc::vec::Vec;

use market::Text;

use super::snapshot::{Section, SnapshotError};

/// Bytes of records on their way out.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u128(&mut self, value: u128) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn text<const N: usize>(&mut self, text: &Text<N>) {
        self.0.extend(text.as_bytes());
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Bytes of records on their way in.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    section: Section,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(section: Section, bytes: &'a [u8]) -> Self {
        Self { section, bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn u8(&mut self) -> Result<u8, SnapshotError> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, SnapshotError> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, SnapshotError> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, SnapshotError> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, SnapshotError> {
        self.take().map(u128::from_le_bytes)
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, SnapshotError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.field(field)),
        }
    }

    pub(crate) fn code<T>(
        &mut self,
        field: &'static str,
        from_code: impl Fn(u8) -> Option<T>,
    ) -> Result<T, SnapshotError> {
        from_code(self.u8()?).ok_or(self.field(field))
    }

    pub(crate) fn text<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<Text<N>, SnapshotError> {
        Text::from_bytes(self.take()?).ok_or(self.field(field))
    }

    /// The error of a field of this section.
    pub(crate) fn field(&self, field: &'static str) -> SnapshotError {
        SnapshotError::Field { section: self.section, field }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let (taken, rest) =
            self.bytes.split_first_chunk().ok_or(SnapshotError::Short { section: self.section })?;
        self.bytes = rest;
        Ok(*taken)
    }
}
