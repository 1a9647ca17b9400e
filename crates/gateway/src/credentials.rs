//! User names and passwords, and the check of a login.
//!
//! Invariant: a password is never printed, and the time of a check says nothing about it.

use std::{fmt, hint::black_box};

use market::{Firm, Text};

/// Who may log in: a name and a password. Case and padding do not matter in either.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    username: Text<6>,
    password: [u8; 10],
    pub(crate) cancel_on_disconnect: bool,
    pub(crate) firms: Vec<Firm>,
}

/// What keeps a name and a password from being an user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialsError {
    /// A name is 1 to 6 printable ASCII characters.
    Username,
    /// A password is 1 to 10 printable ASCII characters.
    Password,
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Username => write!(f, "a user name is 1 to 6 printable ASCII characters"),
            Self::Password => write!(f, "a password is 1 to 10 printable ASCII characters"),
        }
    }
}

impl std::error::Error for CredentialsError {}

impl Credentials {
    /// An user of these.
    ///
    /// # Errors
    /// One of them does not fit its field of the SoupBinTCP login request.
    pub fn new(username: &str, password: &str) -> Result<Self, CredentialsError> {
        let username = plain_username(username.as_bytes()).ok_or(CredentialsError::Username)?;
        let password = plain::<10>(password.as_bytes()).ok_or(CredentialsError::Password)?;
        if password == [b' '; 10] {
            return Err(CredentialsError::Password);
        }
        Ok(Self { username, password, cancel_on_disconnect: false, firms: Vec::new() })
    }

    /// With its orders canceled whenever its connection ends.
    #[must_use]
    pub const fn with_cancel_on_disconnect(mut self, wanted: bool) -> Self {
        self.cancel_on_disconnect = wanted;
        self
    }

    /// With orders of these firms allowed. An order without a firm always is.
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
}

/// The password stays out of every log.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// The user a name and a password belong to.
///
/// An unknown name costs the same comparison as a known one, and a password that begins right
/// costs the same as one that does not.
pub(crate) fn authenticate(
    users: &[Credentials],
    username: &Text<6>,
    password: &Text<10>,
) -> Option<usize> {
    /// No password has these bytes.
    const NO_PASSWORD: [u8; 10] = [0xff; 10];
    let index = position(users, username);
    let expected = index.map_or(&NO_PASSWORD, |index| &users[index].password);
    let given = plain::<10>(password.as_bytes()).unwrap_or([0; 10]);
    if equal_in_constant_time(expected, &given) { index } else { None }
}

/// The user of this name.
pub(crate) fn position(users: &[Credentials], username: &Text<6>) -> Option<usize> {
    let username = plain_username(username.as_bytes());
    users.iter().position(|user| Some(user.username) == username)
}

/// A name as it is compared: without padding on either side, in upper case. `None` if it is none.
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

fn equal_in_constant_time(a: &[u8; 10], b: &[u8; 10]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| black_box(difference | (a ^ b)));
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case and padding do not matter; anything else does.
    #[test]
    fn names_and_passwords_compare_without_case_and_padding() {
        let users =
            [Credentials::new("USER01", "Secret1").unwrap(), Credentials::new("b", "x").unwrap()];
        let found = |username: &str, password: &str| {
            let username = Text::new(username).unwrap();
            authenticate(&users, &username, &Text::new(password).unwrap())
        };
        assert_eq!(found("user01", "SECRET1   "), Some(0));
        assert_eq!(found("     B", "         X"), Some(1));
        assert_eq!(found("USER01", "Secret2"), None);
        assert_eq!(found("USER01", ""), None);
        assert_eq!(found("USER02", "Secret1"), None);
        assert_eq!(found("", "Secret1"), None);
    }

    /// What cannot be sent in a login request cannot be an user.
    #[test]
    fn accounts_fit_the_login_request() {
        assert_eq!(Credentials::new("", "x").unwrap_err(), CredentialsError::Username);
        assert_eq!(Credentials::new("SEVEN77", "x").unwrap_err(), CredentialsError::Username);
        assert_eq!(Credentials::new("A", "").unwrap_err(), CredentialsError::Password);
        assert_eq!(Credentials::new("A", "elevenchars").unwrap_err(), CredentialsError::Password);
        assert_eq!(Credentials::new("A", "t\tb").unwrap_err(), CredentialsError::Password);
    }

    /// A password never shows where an user is printed.
    #[test]
    fn a_password_is_not_printed() {
        let user = Credentials::new("USER01", "HUSH").unwrap();
        assert!(!format!("{user:?}").contains("HUSH"));
    }
}
