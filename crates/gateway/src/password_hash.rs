//! Argon2 hashes of passwords: read as a configuration has them, made for one, and compared with a password.
//!
//! Invariant: a hash is of the password as logins are compared, without padding and in upper case; a check takes no more time
//! and memory than the bounds say.

use std::{fmt, io};

use argon2::{
    Algorithm, Argon2, Block, Params, Version,
    password_hash::{self, Output, ParamsString, PasswordHash as PhcString, SaltString},
};

/// The most memory of a check, in KiB.
const MEMORY_KIB_MAX: u32 = 256 << 10;
/// The most memory times passes: a quarter of a second.
const WORK_KIB_MAX: u64 = 256 << 10;
const LANES_MAX: u32 = 16;
/// Memory of a hash that is made, in KiB, and its passes: the first choice of OWASP.
const MEMORY_KIB: u32 = 19 << 10;
const PASSES: u32 = 2;
const SALT_LEN: usize = 16;
const HASH_LEN: usize = 32;
/// The most bytes that the format has room for.
const SALT_LEN_MAX: usize = 48;
const HASH_LEN_MAX: usize = 64;
/// The prefix of such a hash.
const PREFIX: &str = "$argon2";

/// The hash of a password, with the parameters to compare a password with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PasswordHash {
    algorithm: Algorithm,
    version: Version,
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: [u8; SALT_LEN_MAX],
    salt_len: usize,
    hash: [u8; HASH_LEN_MAX],
    hash_len: usize,
}

/// Why a text is no hash that a password can be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordHashError {
    /// It is not in the PHC format, or a part of it is missing or out of range.
    Format(password_hash::Error),
    /// A check would exceed the bounds.
    Costs { memory_kib: u32, passes: u32, lanes: u32 },
}

impl fmt::Display for PasswordHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => write!(
                f,
                "the password looks like an argon2 hash and is invalid ({error}): `damrak password` makes one"
            ),
            Self::Costs { memory_kib, passes, lanes } => write!(
                f,
                "the argon2 hash takes m={memory_kib} KiB, t={passes} passes and p={lanes} lanes: at most {MEMORY_KIB_MAX} \
                 KiB, {WORK_KIB_MAX} KiB times passes, and {LANES_MAX} lanes; `damrak password` makes a faster one"
            ),
        }
    }
}

impl std::error::Error for PasswordHashError {}

/// Memory of a check, used again for the next.
#[derive(Default)]
pub(crate) struct HashMemory(Vec<Block>);

impl PasswordHash {
    /// True if a password of a configuration has the prefix of a hash.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// From the PHC format: `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`.
    ///
    /// # Errors
    /// It is not in that format, or a check of it would exceed the bounds.
    pub fn read(text: &str) -> Result<Self, PasswordHashError> {
        let (hash, params) = Self::parse(text).map_err(PasswordHashError::Format)?;
        let (memory_kib, passes, lanes) = (params.m_cost(), params.t_cost(), params.p_cost());
        let work_kib = u64::from(memory_kib) * u64::from(passes);
        if MEMORY_KIB_MAX < memory_kib || WORK_KIB_MAX < work_kib || LANES_MAX < lanes {
            return Err(PasswordHashError::Costs { memory_kib, passes, lanes });
        }
        Ok(hash)
    }

    fn parse(text: &str) -> password_hash::Result<(Self, Params)> {
        let phc = PhcString::new(text)?;
        let params = Params::try_from(&phc)?;
        let (Some(salt), Some(output)) = (phc.salt, phc.hash) else {
            return Err(password_hash::Error::PhcStringField);
        };
        if !params.keyid().is_empty() || !params.data().is_empty() {
            return Err(password_hash::Error::ParamNameInvalid);
        }
        // A hash without a version is of the first version.
        let version = phc.version.map_or(Ok(Version::V0x10), Version::try_from)?;
        let mut hash = Self {
            algorithm: Algorithm::try_from(phc.algorithm)?,
            version,
            memory_kib: params.m_cost(),
            passes: params.t_cost(),
            lanes: params.p_cost(),
            salt: [0; SALT_LEN_MAX],
            salt_len: 0,
            hash: [0; HASH_LEN_MAX],
            hash_len: output.len(),
        };
        hash.salt_len = salt.decode_b64(&mut hash.salt)?.len();
        hash.hash[..output.len()].copy_from_slice(output.as_bytes());
        Ok((hash, params))
    }

    /// Makes the hash of a password, as a text in the PHC format, with a random salt from the system.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn make(password: &[u8; 10]) -> io::Result<String> {
        let mut salt = [0; SALT_LEN];
        for half in salt.chunks_exact_mut(size_of::<u64>()) {
            half.copy_from_slice(&os::random_u64()?.to_ne_bytes());
        }
        let (algorithm, version) = (Algorithm::Argon2id, Version::V0x13);
        let params = Params::new(MEMORY_KIB, PASSES, 1, Some(HASH_LEN)).expect("they are in range");
        let mut hash = [0; HASH_LEN];
        Argon2::new(algorithm, version, params.clone())
            .hash_password_into(trimmed(password), &salt, &mut hash)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let salt = SaltString::encode_b64(&salt).expect("it has a length that a salt may have");
        let text = PhcString {
            algorithm: algorithm.ident(),
            version: Some(version.into()),
            params: ParamsString::try_from(&params).expect("numbers fit"),
            salt: Some(salt.as_salt()),
            hash: Some(Output::new(&hash).expect("it has a length that a hash may have")),
        };
        Ok(text.to_string())
    }

    /// True if it is the hash of this password. Takes tens of milliseconds.
    pub(crate) fn is_of(&self, password: &[u8; 10], memory: &mut HashMemory) -> bool {
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(self.hash_len));
        let params = params.expect("they were in range");
        let blocks = params.block_count();
        if memory.0.len() < blocks {
            memory.0.resize(blocks, Block::default());
        }
        let mut hash = [0; HASH_LEN_MAX];
        let made = Argon2::new(self.algorithm, self.version, params)
            .hash_password_into_with_memory(
                trimmed(password),
                &self.salt[..self.salt_len],
                &mut hash[..self.hash_len],
                &mut memory.0[..blocks],
            );
        made.is_ok() && crate::credentials::is_equal_in_constant_time(&hash, &self.hash)
    }

    /// Memory that a check takes, in bytes.
    #[must_use]
    pub const fn memory_bytes(&self) -> u64 {
        self.memory_kib as u64 * 1024
    }
}

/// A password without its padding.
fn trimmed(password: &[u8; 10]) -> &[u8] {
    password.trim_ascii_end()
}

/// A hash stays out of every log too.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordHash").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by the argon2 of its authors: `printf SECRET1 | argon2 saltsalt -id -t 1 -k 64 -p 1 -l 16 -e`.
    const BY_OTHERS: &str = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$tbgz3C3U1sjziyYk69c8bg";

    fn is_of(hash: &PasswordHash, password: &[u8; 10]) -> bool {
        hash.is_of(password, &mut HashMemory::default())
    }

    /// A hash that is made is of its password and of no other; two of one password differ.
    #[test]
    fn a_hash_is_of_its_password() {
        let [one, two] = [(); 2].map(|()| PasswordHash::make(b"SECRET1   ").unwrap());
        assert_ne!(one, two, "each has a salt of its own");
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        let hash = PasswordHash::read(&one).unwrap();
        assert!(is_of(&hash, b"SECRET1   ") && !is_of(&hash, b"SECRET2   "));
    }

    /// A hash made by another program is accepted.
    #[test]
    fn hashes_of_others_are_taken() {
        let hash = PasswordHash::read(BY_OTHERS).unwrap();
        assert!(is_of(&hash, b"SECRET1   ") && !is_of(&hash, b"SECRET    "));
    }

    /// A text that is no hash, or a hash that would take too long, is refused with the reason.
    #[test]
    fn malformed_hashes_are_named() {
        let error = |text: &str| PasswordHash::read(text).unwrap_err().to_string();
        for text in [
            "$argon2id",
            "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ",
            "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$not+base*64",
            "$argon2id$v=18$m=64,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$argon2id$v=19$m=1,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
            "$argon2x$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
        ] {
            let error = error(text);
            assert!(
                error.contains("is invalid (") && error.contains("`damrak password`"),
                "{error}"
            );
        }
        for costs in ["m=262145,t=1,p=1", "m=262144,t=5,p=1", "m=1024,t=1,p=17"] {
            let error =
                error(&format!("$argon2id$v=19${costs}$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA"));
            assert!(error.contains("at most 262144 KiB"), "{error}");
        }
        assert!(PasswordHash::is_meant("$argon2id") && !PasswordHash::is_meant("$ecret"));
    }
}
