//! User names and passwords, as a configuration has them.
//!
//! Invariant: a password is never printed, and the time of a comparison reveals nothing about it.

use std::{fmt, hint::black_box};

use market::{Firm, Text};

use crate::password_hash::{PasswordHash, PasswordHashError};

/// A user that may log in: a name and a password. Case and padding do not matter in either.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    username: Text<6>,
    secret: Secret,
    pub(crate) cancel_on_disconnect: bool,
    pub(crate) firms: Vec<Firm>,
}

/// The secret that a password is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secret {
    Plain([u8; 10]),
    Hash(PasswordHash),
}

/// Why a name and a password cannot be those of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialsError {
    /// A name is 1 to 6 printable ASCII characters.
    Username,
    /// A password is 1 to 10 printable ASCII characters.
    Password,
    /// The password begins like a hash and is not a valid one.
    Hash(PasswordHashError),
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Username => write!(f, "a user name is 1 to 6 printable ASCII characters"),
            Self::Password => write!(f, "a password is 1 to 10 printable ASCII characters"),
            Self::Hash(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CredentialsError {}

impl Credentials {
    /// A user with this name and password; an argon2 hash may stand for the password.
    ///
    /// # Errors
    /// The name or the password does not fit its field of the SoupBinTCP login request, or the hash cannot be read.
    pub fn new(username: &str, password: &str) -> Result<Self, CredentialsError> {
        let username = plain_username(username.as_bytes()).ok_or(CredentialsError::Username)?;
        let secret = if PasswordHash::is_meant(password) {
            Secret::Hash(PasswordHash::read(password).map_err(CredentialsError::Hash)?)
        } else {
            Secret::Plain(plain_password(password).ok_or(CredentialsError::Password)?)
        };
        Ok(Self { username, secret, cancel_on_disconnect: false, firms: Vec::new() })
    }

    /// The user, with its orders canceled whenever its connection ends, if wanted.
    #[must_use]
    pub const fn with_cancel_on_disconnect(mut self, wanted: bool) -> Self {
        self.cancel_on_disconnect = wanted;
        self
    }

    /// The user, allowed to enter orders of these firms. Orders without a firm are always allowed.
    #[must_use]
    pub fn with_firms(mut self, firms: Vec<Firm>) -> Self {
        self.firms = firms;
        self
    }

    /// The name, in upper case.
    #[must_use]
    pub const fn username(&self) -> Text<6> {
        self.username
    }

    pub(crate) const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The hash of its password, if only the hash is known.
    #[must_use]
    pub const fn hash(&self) -> Option<&PasswordHash> {
        match &self.secret {
            Secret::Hash(hash) => Some(hash),
            Secret::Plain(_) => None,
        }
    }
}

/// The password stays out of every log.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// A password as it is compared and hashed: in upper case, padded on the right; `None` if the text is no valid
/// password.
#[must_use]
pub fn plain_password(password: &str) -> Option<[u8; 10]> {
    plain(password.as_bytes()).filter(|plain| *plain != [b' '; 10])
}

/// The password of a login as it is compared; one that no user has where it has other characters.
pub(crate) fn given_password(password: &Text<10>) -> [u8; 10] {
    plain(password.as_bytes()).unwrap_or([0; 10])
}

/// The user of this name.
pub(crate) fn position(users: &[Credentials], username: &Text<6>) -> Option<usize> {
    let username = plain_username(username.as_bytes());
    users.iter().position(|user| Some(user.username) == username)
}

/// A name as it is compared: without padding on either side, in upper case. `None` if the bytes are no valid name.
pub(crate) fn plain_username(username: &[u8]) -> Option<Text<6>> {
    Text::from_bytes(plain(username)?).filter(|username| !username.is_blank())
}

fn plain<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut padded = [b' '; N];
    let text = text.trim_ascii();
    padded.get_mut(..text.len())?.copy_from_slice(text);
    padded.make_ascii_uppercase();
    padded.iter().all(|byte| (b' '..=b'~').contains(byte)).then_some(padded)
}

pub(crate) fn is_equal_in_constant_time<const N: usize>(a: &[u8; N], b: &[u8; N]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| black_box(difference | (a ^ b)));
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name or password that does not fit a login request cannot be that of a user.
    #[test]
    fn accounts_fit_the_login_request() {
        assert_eq!(Credentials::new("", "x").unwrap_err(), CredentialsError::Username);
        assert_eq!(Credentials::new("SEVEN77", "x").unwrap_err(), CredentialsError::Username);
        assert_eq!(Credentials::new("A", "").unwrap_err(), CredentialsError::Password);
        assert_eq!(Credentials::new("A", "elevenchars").unwrap_err(), CredentialsError::Password);
        assert_eq!(Credentials::new("A", "t\tb").unwrap_err(), CredentialsError::Password);
        let error = Credentials::new("A", "$argon2id$v=19").unwrap_err();
        assert!(matches!(error, CredentialsError::Hash(PasswordHashError::Format(_))), "{error:?}");
    }

    /// A password never shows where a user is printed.
    #[test]
    fn a_password_is_not_printed() {
        let user = Credentials::new("USER01", "HUSH").unwrap();
        assert!(!format!("{user:?}").contains("HUSH"));
    }
}
