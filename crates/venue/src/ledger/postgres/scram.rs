//! The login SCRAM-SHA-256 of RFC 7677: the password is proved, and never sent.

use std::{fs::File, io::Read};

use sha2::{Digest, Sha256};

/// A login under way.
pub(super) struct Scram {
    password: String,
    nonce: String,
    /// What the server must prove, once we have answered.
    signature: Option<[u8; 32]>,
}

impl Scram {
    /// As the protocol names it.
    pub(super) const NAME: &'static [u8] = b"SCRAM-SHA-256";

    /// With a nonce of the system's randomness: only the server looks at it, nothing of the venue
    /// depends on it.
    pub(super) fn begin(password: &str) -> Result<Self, String> {
        let mut random = [0; 18];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut random))
            .map_err(|error| format!("cannot read /dev/urandom: {error}"))?;
        Ok(Self::with_nonce(password, base64(&random)))
    }

    fn with_nonce(password: &str, nonce: String) -> Self {
        Self { password: password.to_owned(), nonce, signature: None }
    }

    /// The first message of the client.
    pub(super) fn first(&self) -> String {
        format!("n,,n=,r={}", self.nonce)
    }

    /// The answer to the first message of the server.
    pub(super) fn answer(&mut self, server_first: &str) -> Result<String, String> {
        let field = |name: &str| {
            let mut fields = server_first.split(',');
            fields.find_map(|field| field.strip_prefix(name)).ok_or("SCRAM: a field is missing")
        };
        let (nonce, salt) = (field("r=")?, field("s=")?);
        let rounds: u32 = field("i=")?.parse().map_err(|_| "SCRAM: no number of rounds")?;
        let salt = from_base64(salt).ok_or("SCRAM: the salt is not base64")?;
        if !nonce.starts_with(&self.nonce) || rounds == 0 || rounds > 10_000_000 {
            return Err("SCRAM: the server answers somebody else".into());
        }
        let salted = stretched(self.password.as_bytes(), &salt, rounds);
        let client_key = hmac(&salted, b"Client Key");
        let stored: [u8; 32] = Sha256::digest(client_key).into();
        let without_proof = format!("c=biws,r={nonce}");
        let all = format!("n=,r={},{server_first},{without_proof}", self.nonce);
        let mut proof = hmac(&stored, all.as_bytes());
        proof.iter_mut().zip(client_key).for_each(|(byte, key)| *byte ^= key);
        self.signature = Some(hmac(&hmac(&salted, b"Server Key"), all.as_bytes()));
        Ok(format!("{without_proof},p={}", base64(&proof)))
    }

    /// The server knows the password too.
    pub(super) fn check(&self, server_final: &str) -> Result<(), String> {
        let told = server_final.strip_prefix("v=").and_then(from_base64);
        match (told, self.signature) {
            (Some(told), Some(signature)) if told == signature => Ok(()),
            _ => Err("SCRAM: the server does not know the password".into()),
        }
    }
}

fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let padded = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

/// PBKDF2 with one block. A key longer than a block of the hash is its hash.
fn stretched(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 32] {
    let mut block = [0; 64];
    if password.len() <= 64 {
        block[..password.len()].copy_from_slice(password);
    } else {
        block[..32].copy_from_slice(&Sha256::digest(password));
    }
    let of = |pad: u8| Sha256::new().chain_update(block.map(|byte| byte ^ pad));
    let (inner, outer) = (of(0x36), of(0x5c));
    let round = |message: &[u8]| -> [u8; 32] {
        let inner = inner.clone().chain_update(message).finalize();
        outer.clone().chain_update(inner).finalize().into()
    };
    let mut last = round(&[salt, &1_u32.to_be_bytes()].concat());
    let mut sum = last;
    for _ in 1..rounds {
        last = round(&last);
        sum.iter_mut().zip(last).for_each(|(byte, other)| *byte ^= other);
    }
    sum
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let group = part.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte));
        let group = group << (8 * (3 - part.len()));
        for nth in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * nth)) as usize & 63];
            text.push(if nth <= part.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || digits.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::new();
    for part in digits.as_bytes().chunks(4) {
        let mut group = 0_u32;
        for digit in part {
            group = group << 6 | DIGITS.iter().position(|known| known == digit)? as u32;
        }
        group <<= 6 * (4 - part.len());
        bytes.extend_from_slice(&group.to_be_bytes()[1..part.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3, but for the user's name, which PostgreSQL leaves out
    /// and which therefore changes the proofs: those here were computed with Python's hashlib.
    #[test]
    fn exchange_of_the_rfc() {
        let mut scram = Scram::with_nonce("pencil", "rOprNGfwEbeRWgbNEkqO".into());
        assert_eq!(scram.first(), "n,,n=,r=rOprNGfwEbeRWgbNEkqO");
        let answer = scram
            .answer(
                "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                 s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            )
            .unwrap();
        assert_eq!(
            answer,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=qvT2SWdEH5Q06albL+hjSYuUhCG7VndFyzIb7CK4n9k="
        );
        scram.check("v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=").unwrap();
        scram.check("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").unwrap_err();
    }

    /// A server that answers another client is refused.
    #[test]
    fn foreign_nonces_are_refused() {
        let mut scram = Scram::with_nonce("pencil", "mine".into());
        assert!(scram.answer("r=yours,s=AAAA,i=1").is_err());
        assert!(scram.check("v=AAAA").is_err());
    }

    /// Base64 goes both ways, for every length.
    #[test]
    fn base64_goes_both_ways() {
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
        assert_eq!(base64(b"fooba"), "Zm9vYmE=");
        for len in 0..50 {
            let bytes: Vec<u8> = (0..len).map(|it: u8| it.wrapping_mul(37)).collect();
            assert_eq!(from_base64(&base64(&bytes)), Some(bytes));
        }
        assert_eq!(from_base64("A"), None);
    }
}
