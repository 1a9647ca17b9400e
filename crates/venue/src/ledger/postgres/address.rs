//! Where a server is, as a URL says it.

use std::fmt;

/// `postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE`; the host may also be given as `?host=`, where
/// one that begins with `/` is the folder of a Unix socket, and the port as `&port=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) database: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{what} in {:?}", without_password(url));
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or_else(|| {
            wrong("a URL is postgres://USER:PASSWORD@HOST:PORT/DATABASE, and not what stands")
        })?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (who, None),
        };
        let (mut host, mut port) = match place.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("host", value)) => host = value,
                Some(("port", value)) => port = Some(value),
                _ => return Err(wrong(&format!("unknown option {option:?}"))),
            }
        }
        let text = |part: &str| decoded(part).ok_or_else(|| wrong("a broken %"));
        let user = if user.is_empty() { "damrak".to_owned() } else { text(user)? };
        let host = text(host.trim_start_matches('[').trim_end_matches(']'))?;
        Ok(Self {
            host: if host.is_empty() { "localhost".to_owned() } else { host },
            port: match port {
                Some(port) => port.parse().map_err(|_| wrong("a wrong port"))?,
                None => 5432,
            },
            password: password.map(text).transpose()?,
            database: if database.is_empty() { user.clone() } else { text(database)? },
            user,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.host, self.port, self.database)
    }
}

/// The URL, with its password hidden.
pub(crate) fn without_password(url: &str) -> String {
    let hidden = || {
        let (scheme, rest) = url.split_once("://")?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (who, _) = rest[..end].rsplit_once('@')?;
        let (user, _) = who.split_once(':')?;
        Some(format!("{scheme}://{user}:***{}", &rest[who.len()..]))
    };
    hidden().unwrap_or_else(|| url.to_owned())
}

/// With `%40` for `@` and so on; `None` if a `%` is not followed by two digits.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        if *byte == b'%' {
            let digits = str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A URL says host, port, user, password and database, each of which has a default.
    #[test]
    fn urls_are_read() {
        let address = Address::parse("postgres://me:p%40ss@db.example:6000/venue").unwrap();
        assert_eq!((&*address.host, address.port), ("db.example", 6000));
        assert_eq!((&*address.user, address.password.as_deref()), ("me", Some("p@ss")));
        assert_eq!(address.database, "venue");
        let address = Address::parse("postgres:///venue?host=/run/pg&port=7").unwrap();
        assert_eq!((&*address.host, address.port, &*address.user), ("/run/pg", 7, "damrak"));
        let address = Address::parse("postgresql://[::1]:5/").unwrap();
        assert_eq!((&*address.host, address.port, &*address.database), ("::1", 5, "damrak"));
    }

    /// What is no URL is told, without its password.
    #[test]
    fn wrong_urls_are_told() {
        let told = Address::parse("postgres://me:secret@host:port/x").unwrap_err();
        assert!(told.contains("wrong port") && !told.contains("secret"), "{told}");
        assert!(Address::parse("mysql://x").unwrap_err().contains("postgres://"));
        assert!(Address::parse("postgres://x/?sslmode=require").unwrap_err().contains("sslmode"));
        assert_eq!(without_password("postgres://u@h/d"), "postgres://u@h/d");
    }
}
