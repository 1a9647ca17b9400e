//! Converts `Debug` output to JSON, so that every command and event, also a future one, can be
//! exported with the field names of the code.

use std::fmt::Debug;

use serde_json::{Map, Value};

/// A value as JSON: a struct as an object, a tuple of one as its field, a variant with fields as an
/// object with the variant's name as the only key.
#[must_use]
pub fn json(value: &impl Debug) -> Value {
    let text = format!("{value:?}");
    let mut reader = Reader { text: &text, at: 0 };
    reader.value()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Value {
        match self.peek() {
            Some('"') => Value::String(self.string()),
            Some('[') => Value::Array(self.list('[', ']')),
            Some('(') => Value::Array(self.list('(', ')')),
            Some('\'') => {
                self.at += 1;
                Value::String(self.until('\''))
            }
            _ => {
                let word = self.word();
                match self.peek_after_blank() {
                    Some('{') => self.object(),
                    Some('(') => {
                        let mut inner = self.list('(', ')');
                        let inner =
                            if inner.len() == 1 { inner.remove(0) } else { Value::Array(inner) };
                        tagged(&word, inner)
                    }
                    _ => plain(&word),
                }
            }
        }
    }

    fn object(&mut self) -> Value {
        self.expect('{');
        let mut fields = Map::new();
        loop {
            self.blank();
            if self.peek() == Some('}') {
                self.at += 1;
                return Value::Object(fields);
            }
            let field = self.word();
            self.expect(':');
            self.blank();
            let value = self.value();
            fields.insert(field, value);
            self.blank();
            if self.peek() == Some(',') {
                self.at += 1;
            }
        }
    }

    fn list(&mut self, open: char, close: char) -> Vec<Value> {
        self.expect(open);
        let mut values = Vec::new();
        loop {
            self.blank();
            match self.peek() {
                None => return values,
                Some(found) if found == close => {
                    self.at += 1;
                    return values;
                }
                Some(',') => self.at += 1,
                Some(_) => values.push(self.value()),
            }
        }
    }

    fn string(&mut self) -> String {
        let rest = &self.text[self.at..];
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, letter)| {
            let ends = *letter == '"' && !escaped;
            escaped = *letter == '\\' && !escaped;
            ends
        });
        let end = end.map_or(rest.len(), |(at, _)| at + 1);
        self.at += end;
        let quoted = &rest[..end];
        // Debug and JSON escape alike all characters that occur here.
        serde_json::from_str(quoted).unwrap_or_else(|_| quoted.trim_matches('"').to_owned())
    }

    fn until(&mut self, end: char) -> String {
        let rest = &self.text[self.at..];
        let len = rest.find(end).unwrap_or(rest.len());
        self.at = (self.at + len + 1).min(self.text.len());
        rest[..len].to_owned()
    }

    fn word(&mut self) -> String {
        let rest = &self.text[self.at..];
        let is_end = |letter: char| !(letter.is_alphanumeric() || "_-.+".contains(letter));
        let len = rest.find(is_end).unwrap_or(rest.len());
        // An unexpected character is skipped, so that parsing ends.
        let len = if len == 0 { rest.chars().next().map_or(0, char::len_utf8) } else { len };
        self.at += len;
        rest[..len].to_owned()
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn peek_after_blank(&mut self) -> Option<char> {
        if self.peek() == Some(' ') && self.text[self.at + 1..].starts_with('{') {
            self.at += 1;
        }
        self.peek()
    }

    fn blank(&mut self) {
        while self.peek() == Some(' ') {
            self.at += 1;
        }
    }

    fn expect(&mut self, letter: char) {
        if self.peek() == Some(letter) {
            self.at += letter.len_utf8();
        }
    }
}

/// Wrapper types whose name adds nothing to the field's.
const WRAPPERS: &[&str] = &[
    "Some",
    "Price",
    "Quantity",
    "Amount",
    "Sequence",
    "Timestamp",
    "OrderId",
    "TradeId",
    "InstrumentId",
    "SessionId",
    "UserRefNum",
    "AccountId",
    "AssetId",
];

fn tagged(name: &str, inner: Value) -> Value {
    if WRAPPERS.contains(&name) || inner.is_number() || inner.is_string() {
        return inner;
    }
    Value::Object(Map::from_iter([(name.to_owned(), inner)]))
}

fn plain(word: &str) -> Value {
    match word {
        "None" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        number if number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok() => {
            serde_json::from_str(number).unwrap_or_else(|_| Value::String(number.to_owned()))
        }
        word => Value::String(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use market::{Command, Price, Symbol, SystemEvent};
    use serde_json::json;

    #[derive(Debug)]
    #[expect(dead_code, reason = "only its Debug is looked at")]
    struct Example {
        symbol: Symbol,
        price: Option<Price>,
        none: Option<u8>,
        list: [i32; 2],
        flag: bool,
        letter: char,
        text: &'static str,
    }

    /// Structs, wrappers, lists and words become plain JSON.
    #[test]
    fn debug_becomes_json() {
        let example = Example {
            symbol: Symbol::new("DAMRAK").unwrap(),
            price: Some(Price(1_503_400)),
            none: None,
            list: [-1, 2],
            flag: true,
            letter: 'x',
            text: "a \"quoted\" {word}",
        };
        assert_eq!(
            super::json(&example),
            json!({
                "symbol": "DAMRAK", "price": 1_503_400, "none": null, "list": [-1, 2],
                "flag": true, "letter": "x", "text": "a \"quoted\" {word}",
            })
        );
        let command = Command::System(SystemEvent::StartOfMessages);
        assert_eq!(super::json(&command), json!("StartOfMessages"));
    }
}
