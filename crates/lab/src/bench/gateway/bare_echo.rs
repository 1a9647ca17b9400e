//! The least program that answers requests over TCP: for each whole request, an answer of as many bytes as the venue's.
//!
//! Invariant: it cuts the stream as the venue does, and does nothing else.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use wire::fix::{BUILDER_LEN_MAX, Builder, Version};

use super::stream::Framing;

const READ_LEN: usize = 64 << 10;

pub(super) struct BareEcho {
    stream: TcpStream,
    framing: Framing,
    answer: Vec<u8>,
    sleeps: bool,
}

impl BareEcho {
    /// Takes the waiting connection; with `sleeps`, it waits for requests in the kernel.
    pub(super) fn accept(
        listener: &TcpListener,
        framing: Framing,
        answer_len: usize,
        sleeps: bool,
    ) -> io::Result<Self> {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(!sleeps)?;
        Ok(Self { stream, framing, answer: answer(framing, answer_len), sleeps })
    }

    /// Answers until the connection ends, or `stop` is set.
    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = vec![0; READ_LEN];
        let mut kept = 0;
        let mut answers = Vec::with_capacity(READ_LEN);
        while !stop.load(Ordering::Relaxed) {
            match self.stream.read(&mut buffer[kept..]) {
                Ok(0) => break,
                Ok(count) => kept += count,
                Err(error) if os::is_not_now(&error) && !self.sleeps => continue,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error),
            }
            let mut taken = 0;
            while let Some(len) =
                self.framing.first_len(&buffer[taken..kept]).map_err(io::Error::other)?
            {
                answers.extend_from_slice(&self.answer);
                taken += len;
            }
            buffer.copy_within(taken..kept, 0);
            kept -= taken;
            let mut written = 0;
            while written < answers.len() {
                match self.stream.write(&answers[written..]) {
                    Ok(count) => written += count,
                    Err(error) if os::is_not_now(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            answers.clear();
        }
        Ok(())
    }
}

/// Messages of FIX with these numbers that were sent before, each of this length or a little more.
pub(super) fn resent(numbers: Range<u64>, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        let of_text = |text: &str| {
            let mut buffer = [0; BUILDER_LEN_MAX];
            let mut builder = Builder::new(&mut buffer);
            builder.text(35, "8").number(34, number).char(43, b'Y').text(58, text);
            builder.finish(Version::Fix44).to_vec()
        };
        let missing = len.saturating_sub(of_text("-").len());
        bytes.extend(of_text(&"-".repeat(1 + missing)));
    }
    bytes
}

/// Waits for a request, and answers with these bytes.
pub(super) fn send_all(mut stream: TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.read_exact(&mut [0; 3])?;
    bytes.chunks(READ_LEN).try_for_each(|chunk| stream.write_all(chunk))
}

/// An answer that the client counts, of this length or a little more.
fn answer(framing: Framing, len: usize) -> Vec<u8> {
    match framing {
        Framing::SoupBinTcp => {
            let message_len = len.max(4) - 2;
            let mut answer = (message_len as u16).to_be_bytes().to_vec();
            answer.extend_from_slice(b"SA");
            answer.resize(2 + message_len, 0);
            answer
        }
        Framing::Fix => {
            let of_text = |text: &str| {
                let mut buffer = [0; BUILDER_LEN_MAX];
                let mut builder = Builder::new(&mut buffer);
                builder.text(35, "8").text(150, "0").text(58, text);
                builder.finish(Version::Fix44).to_vec()
            };
            let missing = len.saturating_sub(of_text("-").len());
            of_text(&"-".repeat(1 + missing))
        }
    }
}
