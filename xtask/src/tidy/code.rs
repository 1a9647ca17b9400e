//! The code of a Rust text without comments and literals, and the words of that code.

/// The text with comments, strings and character literals blanked: only code is left, on its original
/// lines.
pub fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if text[at..].starts_with("//") => end_of_line(bytes, at),
            b'/' if text[at..].starts_with("/*") => end_of_block_comment(text, at),
            b'"' => end_of_string(bytes, at),
            b'r' | b'b' | b'c' if at == 0 || !is_word(bytes[at - 1]) => {
                end_of_prefixed_literal(bytes, at)
            }
            b'\'' => end_of_character(text, at),
            _ => at,
        };
        if end == at {
            let character = text[at..].chars().next().expect("`at` is inside the text");
            code.push(character);
            at += character.len_utf8();
        } else {
            code.extend(text[at..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// The other half of [`code_of`]: comments and literals in their places, code blanked.
pub fn prose_of(text: &str) -> String {
    let same =
        |(written, code): (char, char)| if written == code && code != '\n' { ' ' } else { written };
    text.chars().zip(code_of(text).chars()).map(same).collect()
}

/// Line number, from 1, and each identifier or keyword of blanked code.
pub fn words_of(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().flat_map(|(index, line)| {
        line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
            .map(move |word| (index + 1, word))
    })
}

/// `OrderQty_left` is `order`, `qty`, `left`.
pub fn parts_of(word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut previous_is_lower = false;
    for character in word.chars() {
        if character == '_' || (character.is_uppercase() && previous_is_lower) {
            parts.push(String::new());
        }
        if character != '_' {
            parts.last_mut().expect("never empty").extend(character.to_lowercase());
        }
        previous_is_lower = character.is_lowercase() || character.is_ascii_digit();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn end_of_line(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
}

fn end_of_block_comment(text: &str, at: usize) -> usize {
    let mut depth = 0;
    let mut end = at;
    while end < text.len() {
        if text.as_bytes()[end..].starts_with(b"/*") {
            depth += 1;
            end += 2;
        } else if text.as_bytes()[end..].starts_with(b"*/") {
            depth -= 1;
            end += 2;
            if depth == 0 {
                return end;
            }
        } else {
            end += 1;
        }
    }
    end
}

fn end_of_string(bytes: &[u8], quote: usize) -> usize {
    let mut end = quote + 1;
    while end < bytes.len() {
        match bytes[end] {
            b'\\' => end += 2,
            b'"' => return end + 1,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// The end of a literal with a prefix: `b"…"`, `c"…"`, `r#"…"#`, `br"…"`, `b'…'`; `at` itself if it is none of them.
fn end_of_prefixed_literal(bytes: &[u8], at: usize) -> usize {
    let letters = bytes[at..].iter().take(2).take_while(|b| b"rbc".contains(b)).count();
    let hashes = bytes[at + letters..].iter().take_while(|byte| **byte == b'#').count();
    let raw = bytes[at..at + letters].contains(&b'r');
    match bytes.get(at + letters + hashes) {
        Some(b'"') if raw => {
            let close: Vec<u8> =
                [b'"'].into_iter().chain(std::iter::repeat_n(b'#', hashes)).collect();
            let start = at + letters + hashes + 1;
            bytes[start..]
                .windows(close.len())
                .position(|window| window == close)
                .map_or(bytes.len(), |length| start + length + close.len())
        }
        Some(b'"') if hashes == 0 => end_of_string(bytes, at + letters),
        Some(b'\'') if hashes == 0 && bytes[at] == b'b' && letters == 1 => {
            let escaped = bytes.get(at + 2) == Some(&b'\\');
            let start = if escaped { at + 4 } else { at + 3 };
            bytes[start.min(bytes.len())..]
                .iter()
                .position(|byte| *byte == b'\'')
                .map_or(bytes.len(), |length| start + length + 1)
        }
        _ => at,
    }
}

/// The end of a character literal; `at` itself if the quote opens a lifetime.
fn end_of_character(text: &str, at: usize) -> usize {
    let mut characters = text[at + 1..].char_indices();
    match characters.next() {
        Some((_, '\\')) => {
            // The escaped character itself may be a quote.
            let after = at + 3;
            text.get(after..)
                .and_then(|rest| rest.find('\''))
                .map_or(text.len(), |length| after + length + 1)
        }
        Some(_) => match characters.next() {
            Some((offset, '\'')) => at + 1 + offset + 1,
            _ => at,
        },
        None => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of comments and literals is not code; code stays on its line.
    #[test]
    fn comments_and_literals_are_blanked() {
        let text = "let a = \"unsafe \\\" x\"; // unsafe\n/* unsafe /* nested */ unsafe */ let b = \
                    '\\''; let c: &'static str = r#\"unsafe \" \"#;\nlet d = (b'\\'', b'\"', '\"', \
                    b\"unsafe\", 'é');\nunsafe {}";
        let code = code_of(text);
        let found: Vec<_> = words_of(&code).filter(|(_, word)| *word == "unsafe").collect();
        assert_eq!(found, [(4, "unsafe")], "{code}");
        assert_eq!(code.lines().count(), text.lines().count());
        let names: Vec<_> = words_of(&code).map(|(_, word)| word).collect();
        assert_eq!(
            names,
            ["let", "a", "let", "b", "let", "c", "static", "str", "let", "d", "unsafe"]
        );
    }

    /// A name is split at its underscores and its capitals.
    #[test]
    fn names_are_taken_apart() {
        assert_eq!(parts_of("order_qty"), ["order", "qty"]);
        assert_eq!(parts_of("OrderQty"), ["order", "qty"]);
        assert_eq!(parts_of("LEAVES_MAX"), ["leaves", "max"]);
        assert_eq!(parts_of("_ns"), ["ns"]);
    }
}
