//! Writes a file of rows, gzipped if its name ends in `.gz`.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};

/// A file that is written from its beginning, gzipped if its name ends with `.gz`.
pub struct FileWriter(Packing);

enum Packing {
    Plain(BufWriter<File>),
    Gzip(BufWriter<GzEncoder<File>>),
}

const BUFFER_BYTES: usize = 256 << 10;

impl FileWriter {
    /// Makes a file, or empties the one that is there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        let is_gzip = path.extension().is_some_and(|extension| extension == "gz");
        Ok(Self(if is_gzip {
            // Without a name and a time in its header, so that equal rows are equal bytes.
            let packed = GzEncoder::new(file, Compression::default());
            Packing::Gzip(BufWriter::with_capacity(BUFFER_BYTES, packed))
        } else {
            Packing::Plain(BufWriter::with_capacity(BUFFER_BYTES, file))
        }))
    }

    /// Writes the bytes still held back; without it the file is not whole.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Packing::Plain(mut file) => file.flush(),
            Packing::Gzip(packed) => {
                packed.into_inner().map_err(io::IntoInnerError::into_error)?.finish().map(|_| ())
            }
        }
    }
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Packing::Plain(file) => file.write(bytes),
            Packing::Gzip(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Packing::Plain(file) => file.flush(),
            Packing::Gzip(file) => file.flush(),
        }
    }
}
