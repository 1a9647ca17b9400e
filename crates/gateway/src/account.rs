use std::{fmt, hint::black_box};

use market::Text;

/// Who may log in: a name and a password. Case and padding do not matter in either.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    username: Text<6>,
    password: [u8; 10],
    pub(crate) cancel_on_disconnect: bool,
}

/// What keeps a name and a password from being an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountError {
    /// A name is 1 to 6 printable ASCII characters.
    Username,
    /// A password is 1 to 10 printable ASCII characters.
    Password,
}

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Username => write!(f, "a user name is 1 to 6 printable ASCII characters"),
            Self::Password => write!(f, "a password is 1 to 10 printable ASCII characters"),
        }
    }
}

impl std::error::Error for AccountError {}

impl Account {
    /// An account of these.
    ///
    /// # Errors
    /// One of them does not fit its field of the SoupBinTCP login request.
    pub fn new(username: &str, password: &str) -> Result<Self, AccountError> {
        let username = plain_username(username.as_bytes()).ok_or(AccountError::Username)?;
        let password = plain::<10>(password.as_bytes()).ok_or(AccountError::Password)?;
        if password == [b' '; 10] {
            return Err(AccountError::Password);
        }
        Ok(Self { username, password, cancel_on_disconnect: false })
    }

    /// With its orders canceled whenever its connection ends.
    #[must_use]
    pub const fn with_cancel_on_disconnect(mut self, wanted: bool) -> Self {
        self.cancel_on_disconnect = wanted;
        self
    }

    /// The name, in upper case.
    #[must_use]
    pub const fn username(&self) -> Text<6> {
        self.username
    }
}

/// The password stays out of every log.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("username", &self.username).finish_non_exhaustive()
    }
}

/// The account a name and a password belong to.
///
/// An unknown name costs the same comparison as a known one, and a password that begins right
/// costs the same as one that does not.
pub(crate) fn authenticate(
    accounts: &[Account],
    username: &Text<6>,
    password: &Text<10>,
) -> Option<usize> {
    /// No password has these bytes.
    const NO_PASSWORD: [u8; 10] = [0xff; 10];
    let username = plain_username(username.as_bytes());
    let index = accounts.iter().position(|account| Some(account.username) == username);
    let expected = index.map_or(&NO_PASSWORD, |index| &accounts[index].password);
    let given = plain::<10>(password.as_bytes()).unwrap_or([0; 10]);
    if equal_in_constant_time(expected, &given) { index } else { None }
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
        let accounts =
            [Account::new("USER01", "Secret1").unwrap(), Account::new("b", "x").unwrap()];
        let found = |username: &str, password: &str| {
            let username = Text::new(username).unwrap();
            authenticate(&accounts, &username, &Text::new(password).unwrap())
        };
        assert_eq!(found("user01", "SECRET1   "), Some(0));
        assert_eq!(found("     B", "         X"), Some(1));
        assert_eq!(found("USER01", "Secret2"), None);
        assert_eq!(found("USER01", ""), None);
        assert_eq!(found("USER02", "Secret1"), None);
        assert_eq!(found("", "Secret1"), None);
    }

    /// What cannot be sent in a login request cannot be an account.
    #[test]
    fn accounts_fit_the_login_request() {
        assert_eq!(Account::new("", "x").unwrap_err(), AccountError::Username);
        assert_eq!(Account::new("SEVEN77", "x").unwrap_err(), AccountError::Username);
        assert_eq!(Account::new("A", "").unwrap_err(), AccountError::Password);
        assert_eq!(Account::new("A", "elevenchars").unwrap_err(), AccountError::Password);
        assert_eq!(Account::new("A", "t\tb").unwrap_err(), AccountError::Password);
    }

    /// A password never shows where an account is printed.
    #[test]
    fn a_password_is_not_printed() {
        let account = Account::new("USER01", "HUSH").unwrap();
        assert!(!format!("{account:?}").contains("HUSH"));
    }
}
