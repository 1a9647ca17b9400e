//! As much of HTTP/1.1 as a question and its answer need: one request a connection, no body.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
};

use serde_json::{Value, json};

/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8192;

/// In so many reads the head must be there; else somebody sends it a byte at a time.
const READS_MAX: usize = 64;

/// The most header fields of a request.
const HEADERS_MAX: usize = 64;

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Get,
    /// As GET, but only the head of the answer is wanted.
    Head,
}

/// A question.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Asked,
    /// The parts of the path, decoded.
    pub(super) path: Vec<String>,
    /// What stands after the question mark, decoded.
    pub(super) query: BTreeMap<String, String>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Response {
    /// What was asked for.
    pub(super) fn ok(body: Value) -> Self {
        Self { status: 200, body }
    }

    /// Why not: a word for programs, a sentence for people.
    pub(super) fn error(status: u16, reason: &str, what: &str) -> Self {
        let body = json!({"schema": "damrak/admin-error/1", "reason": reason, "error": what});
        Self { status, body }
    }
}

/// Reads a request; `None` if the other side went away.
pub(super) fn read(stream: &mut impl Read) -> Result<Option<Request>, Response> {
    let mut head = Vec::new();
    for _ in 0..READS_MAX {
        let mut bytes = [0; 2048];
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(count) => head.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(late()),
        }
        if head.len() > HEAD_BYTES_MAX {
            let what = format!("the head of a request has at most {HEAD_BYTES_MAX} bytes");
            return Err(Response::error(431, "head_too_large", &what));
        }
        let known = parse(&head)?;
        if known.is_some() {
            return Ok(known);
        }
    }
    Err(late())
}

fn late() -> Response {
    Response::error(408, "too_slow", "the request did not come in time")
}

/// The request that begins here; `None` if its head is not complete.
fn parse(bytes: &[u8]) -> Result<Option<Request>, Response> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let bad = |what: &str| Response::error(400, "bad_request", what);
    let is_complete = request.parse(bytes).map_err(|error| bad(&error.to_string()))?.is_complete();
    if !is_complete {
        return Ok(None);
    }
    let method = match request.method.unwrap_or_default() {
        "GET" => Asked::Get,
        "HEAD" => Asked::Head,
        other => {
            let what = format!("{other} is not answered here, GET and HEAD are");
            return Err(Response::error(405, "method_not_allowed", &what));
        }
    };
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let decoded = |text: &str| {
        decode(text).ok_or_else(|| bad(&format!("{text:?} is not percent-encoded text")))
    };
    let parts = path.split('/').filter(|part| !part.is_empty());
    let path = parts.map(decoded).collect::<Result<_, _>>()?;
    let mut pairs = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if pairs.insert(decoded(name)?, decoded(value)?).is_some() {
            return Err(bad(&format!("`{name}` is given twice")));
        }
    }
    Ok(Some(Request { method, path, query: pairs }))
}

/// Percent-encoded text; a plus is a plus.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(others.get(..2)?).ok()?;
            let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)?);
            rest = &others[2..];
        } else {
            bytes.push(*first);
            rest = others;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Writes an answer, after which the connection ends.
pub(super) fn write(stream: &mut impl Write, response: &Response, is_head: bool) -> io::Result<()> {
    let body = format!("{}\n", response.body);
    let phrase = match response.status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    let allow = if response.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let mut bytes = format!(
        "HTTP/1.1 {} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\n{allow}Connection: close\r\n\r\n",
        response.status,
        body.len()
    );
    if !is_head {
        bytes.push_str(&body);
    }
    stream.write_all(bytes.as_bytes())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Option<Request>, u16> {
        read(&mut text.as_bytes()).map_err(|response| response.status)
    }

    /// Path and query are decoded, each part by itself.
    #[test]
    fn requests_are_taken_apart() {
        let request = asked("GET /accounts/A%2FB%20C/fills?last=7&before=9 HTTP/1.1\r\n\r\n");
        let pairs = [("last", "7"), ("before", "9")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(
            request,
            Ok(Some(Request {
                method: Asked::Get,
                path: ["accounts", "A/B C", "fills"].map(str::to_owned).to_vec(),
                query: pairs.into(),
            }))
        );
        let head = asked("HEAD / HTTP/1.0\r\nHost: x\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.method, head.path.len()), (Asked::Head, 0));
    }

    /// What is no request, or not one for us, is answered and told why.
    #[test]
    fn wrong_requests_are_refused() {
        assert_eq!(asked(""), Ok(None));
        assert_eq!(asked("GET / HTTP/1.1\r\n"), Ok(None), "it went away in the middle");
        assert_eq!(asked("\u{1}\u{2} nonsense\r\n\r\n"), Err(400));
        assert_eq!(asked("POST / HTTP/1.1\r\n\r\n"), Err(405));
        for target in ["/%", "/%zz", "/%+1", "/%ff", "/?a=1&a=2"] {
            assert_eq!(asked(&format!("GET {target} HTTP/1.1\r\n\r\n")), Err(400), "{target}");
        }
        let long = "a".repeat(HEAD_BYTES_MAX);
        assert_eq!(asked(&format!("GET /{long} HTTP/1.1\r\n\r\n")), Err(431));
    }

    /// One who sends a byte at a time does not hold a connection for ever.
    #[test]
    fn drops_are_not_waited_for() {
        struct Drops(usize);
        impl Read for Drops {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                bytes[0] =
                    b"GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                        [self.0.min(60)];
                self.0 += 1;
                Ok(1)
            }
        }
        let mut drops = Drops(0);
        assert_eq!(read(&mut drops).map_err(|response| response.status).err(), Some(408));
        assert_eq!(drops.0, READS_MAX);
    }
}
