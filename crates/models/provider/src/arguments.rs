//! Parses the arguments of a tool call as models write them.
//!
//! Decision: text that is nearly JSON is repaired if its meaning is unambiguous (trailing commas,
//! single quotes, Python's constants, raw line breaks in strings). Ambiguous text is refused with a
//! reason for the model: truncated text, two objects, a duplicate key, anything but an object.
//! Nothing is guessed and nothing is completed.

use std::iter::Peekable;
use std::str::CharIndices;

use nanobot_types::Map;
use serde_json::{Number, Value};

/// Maximum nesting depth; deeper arguments are refused.
const DEPTH_LIMIT: usize = 64;

/// Maximum number of values in one call. A short text can hold many values, each of which takes
/// memory.
const VALUE_LIMIT: usize = 50_000;

/// Returns the text of the JSON object that the arguments mean, or the reason why they mean none.
///
/// Valid arguments are returned unchanged. Empty text and `null` mean no arguments.
pub(crate) fn repair(raw: &str) -> Result<String, String> {
    let text = raw.trim();
    if text.is_empty() || text == "null" {
        return Ok("{}".to_owned());
    }
    let (value, rest) = parse_lenient(text)?;
    if !rest.trim().is_empty() {
        let position = text.len() - rest.trim_start().len();
        return Err(format!(
            "the arguments go on after their end (at character {position}); send one JSON object"
        ));
    }
    let Value::Object(map) = value else {
        return Err(format!(
            "the arguments must be one JSON object, not {}",
            kind(&value)
        ));
    };
    let valid = serde_json::from_str::<Map>(text).is_ok();
    Ok(if valid {
        text.to_owned()
    } else {
        Value::Object(map).to_string()
    })
}

/// Parses the JSON value at the beginning of a text as models write it, and returns it with the text
/// after it. Nesting, the number of values and duplicate keys are limited as they are for arguments.
///
/// # Errors
/// Returns the reason for the model, also if the text ends before the value does. A number or a
/// constant at the very end of the text counts as cut off.
pub fn parse_lenient(text: &str) -> Result<(Value, &str), String> {
    let mut reader = ArgumentReader {
        text,
        chars: text.char_indices().peekable(),
        values: 0,
    };
    let value = reader.value(0)?;
    let end = reader
        .chars
        .peek()
        .map_or(text.len(), |(position, _)| *position);
    Ok((value, text.get(end..).unwrap_or_default()))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn cut() -> String {
    "the arguments were cut off before their end; send the whole call again, in smaller parts if it is long".to_owned()
}

struct ArgumentReader<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    /// Number of values parsed so far.
    values: usize,
}

impl ArgumentReader<'_> {
    fn skip_space(&mut self) {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
    }

    /// Returns the next character that is not white space, without consuming it.
    fn peek(&mut self) -> Result<char, String> {
        self.skip_space();
        self.chars.peek().map(|(_, c)| *c).ok_or_else(cut)
    }

    /// Consumes and returns the next character.
    fn next(&mut self) -> Result<char, String> {
        self.chars.next().map(|(_, c)| c).ok_or_else(cut)
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_LIMIT {
            return Err("the arguments are nested too deeply".to_owned());
        }
        self.values += 1;
        if self.values > VALUE_LIMIT {
            return Err(format!(
                "the arguments hold more than {VALUE_LIMIT} values; send less at once"
            ));
        }
        match self.peek()? {
            '{' => self.object(depth),
            '[' => self.list(depth),
            '"' | '\'' => self.string().map(Value::String),
            _ => self.literal(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.next()?;
        let mut map = Map::new();
        loop {
            match self.peek()? {
                '}' => break,
                '"' | '\'' => {}
                other => {
                    return Err(format!(
                        "expected a quoted name in an object, found {other:?}"
                    ));
                }
            }
            let name = self.string()?;
            match self.peek()? {
                ':' => self.next()?,
                other => {
                    return Err(format!(
                        "expected ':' after the name {name:?}, found {other:?}"
                    ));
                }
            };
            let value = self.value(depth + 1)?;
            if map.insert(name.clone(), value).is_some() {
                return Err(format!("{name:?} is given twice"));
            }
            if !self.comma('}')? {
                break;
            }
        }
        self.next()?;
        Ok(Value::Object(map))
    }

    fn list(&mut self, depth: usize) -> Result<Value, String> {
        self.next()?;
        let mut items = Vec::new();
        while self.peek()? != ']' {
            items.push(self.value(depth + 1)?);
            if !self.comma(']')? {
                break;
            }
        }
        self.next()?;
        Ok(Value::Array(items))
    }

    /// Consumes a comma and returns `true`, or returns `false` at the closing bracket, which is not
    /// consumed.
    fn comma(&mut self, close: char) -> Result<bool, String> {
        match self.peek()? {
            ',' => self.next().map(|_| true),
            other if other == close => Ok(false),
            other => Err(format!("expected ',' or '{close}', found {other:?}")),
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = self.next()?;
        let mut text = String::new();
        loop {
            match self.next()? {
                c if c == quote => return Ok(text),
                '\\' => text.push(self.escape()?),
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        Ok(match self.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => return self.unicode(),
            c @ ('"' | '\'' | '\\' | '/') => c,
            c => {
                return Err(format!(
                    "\\{c} is no escape of JSON; write \\\\{c} for a backslash"
                ));
            }
        })
    }

    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let mut ahead = self.chars.clone();
        if ahead.next().map(|(_, c)| c) != Some('\\') || ahead.next().map(|(_, c)| c) != Some('u') {
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        self.chars = ahead;
        let second = self.hex()?;
        let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
        Ok(low
            .and_then(|low| char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + low))
            .unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let c = self.next()?;
            let digit = c
                .to_digit(16)
                .ok_or_else(|| format!("{c:?} is no hexadecimal digit"))?;
            code = code * 16 + digit;
        }
        Ok(code)
    }

    /// Parses a number or a constant.
    fn literal(&mut self) -> Result<Value, String> {
        let start = self
            .chars
            .peek()
            .map_or(self.text.len(), |(position, _)| *position);
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '+' | '-' | '.' | '_');
        while self.chars.next_if(|(_, c)| is_part(*c)).is_some() {}
        let end = self
            .chars
            .peek()
            .map_or(self.text.len(), |(position, _)| *position);
        let word = self.text.get(start..end).unwrap_or_default();
        match word {
            "true" | "True" => Ok(Value::Bool(true)),
            "false" | "False" => Ok(Value::Bool(false)),
            "null" | "None" => Ok(Value::Null),
            _ if end == self.text.len() => Err(cut()),
            _ => {
                let number: Result<Number, _> = serde_json::from_str(word);
                number.map(Value::Number).map_err(|_not_a_number| {
                    let next = self.chars.peek().map(|(_, c)| *c).unwrap_or_default();
                    format!(
                        "expected a JSON value, found {:?}",
                        if word.is_empty() {
                            next.to_string()
                        } else {
                            word.to_owned()
                        }
                    )
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_unambiguous_arguments() {
        let table = [
            ("", "{}"),
            ("  ", "{}"),
            ("null", "{}"),
            ("{}", "{}"),
            (r#" {"a": 1,  "b": [1, 2]} "#, r#"{"a": 1,  "b": [1, 2]}"#),
            (r#"{"a": 1,}"#, r#"{"a":1}"#),
            (r#"{"a": [1, 2,],}"#, r#"{"a":[1,2]}"#),
            ("{'a': 'it\\'s \"x\"'}", r#"{"a":"it's \"x\""}"#),
            ("{\"a\": True, \"b\": None}", r#"{"a":true,"b":null}"#),
            ("{\"a\": \"two\nlines\"}", r#"{"a":"two\nlines"}"#),
            (r#"{"a": "\u4f60\ud83d\ude00",}"#, r#"{"a":"你😀"}"#),
            (r#"{"a": "\ud83d",}"#, "{\"a\":\"\u{fffd}\"}"),
            (r#"{"a": {"b": -1.5e3},}"#, r#"{"a":{"b":-1500.0}}"#),
        ];
        for (raw, expected) in table {
            assert_eq!(repair(raw).as_deref(), Ok(expected), "{raw}");
        }
    }

    #[test]
    fn rejects_ambiguous_arguments() {
        let table = [
            (r#"{"path": "a"#, "cut off"),
            (r#"{"path": "a""#, "cut off"),
            (r#"{"path":"#, "cut off"),
            ("{", "cut off"),
            (r#"{"a": [1"#, "cut off"),
            (r#"{"a": 1"#, "cut off"),
            (r#"{"a":"\u00"#, "cut off"),
            (r#"["a"]"#, "a list"),
            (r#""text""#, "a text"),
            ("true", "true or false"),
            (r#"{"path":"a"}{"path":"b"}"#, "after their end"),
            (r#"{"a":1} and more"#, "after their end"),
            (r#"{"a":1,"a":2}"#, "twice"),
            (r#"{"a":1,'a':2}"#, "twice"),
            (r#"{"a" 1}"#, "expected ':'"),
            (r#"{"a": 1 "b": 2}"#, "expected ','"),
            (r#"{"a": "C:\dir"}"#, "no escape"),
            (r#"{"a": what}"#, "expected a JSON value"),
            (r#"{"a": 01}"#, "expected a JSON value"),
            (r#"{a: 1}"#, "quoted name"),
            ("{,}", "quoted name"),
        ];
        for (raw, expected) in table {
            let why = repair(raw).unwrap_err();
            assert!(why.contains(expected), "{raw}: {why}");
        }
        let wide = format!("{{'a': ['\"', {}]}}", "[],".repeat(VALUE_LIMIT));
        assert!(repair(&wide).unwrap_err().contains("50000 values"));
        let deep = format!("{}1{}", "{\"a\":".repeat(1000), "}".repeat(1000));
        assert!(repair(&deep).unwrap_err().contains("deeply"));
    }
}
