//! A JSON file as it is written, with order, spelling and positions.
//!
//! `serde_json` decides what is valid. A small scanner then walks the text again and records the
//! position of each key and the spelling of each number and string, so that messages have lines and
//! a save changes nothing else. No comments, no trailing commas.

use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;

use serde_json::Value;

use crate::ConfigError;

/// A position in the text, counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPosition {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A value of the file.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// A value without parts; `token` is its spelling.
    Scalar {
        value: Value,
        token: String,
    },
    List(Vec<Self>),
    Object(Vec<Member>),
}

/// One key and its value.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// The canonical name, equal to `written` until the document is folded.
    pub(crate) name: String,
    /// The key as it is written in the file.
    pub(crate) written: String,
    /// `true` if `name` is a key of the schema, so that a save uses it.
    pub(crate) known: bool,
    pub(crate) place: TextPosition,
    pub(crate) value: Node,
}

impl Member {
    /// Returns the key that a save writes.
    pub(crate) fn saved_name(&self) -> &str {
        if self.known {
            &self.name
        } else {
            &self.written
        }
    }
}

impl Node {
    pub(crate) fn from_value(value: &Value) -> Self {
        match value {
            Value::Object(map) => Self::Object(
                map.iter()
                    .map(|(name, value)| Member {
                        name: name.clone(),
                        written: name.clone(),
                        known: true,
                        place: TextPosition { line: 0, column: 0 },
                        value: Self::from_value(value),
                    })
                    .collect(),
            ),
            Value::Array(items) => Self::List(items.iter().map(Self::from_value).collect()),
            scalar => Self::Scalar {
                value: scalar.clone(),
                token: scalar.to_string(),
            },
        }
    }

    pub(crate) fn members(&self) -> &[Member] {
        match self {
            Self::Object(members) => members,
            Self::Scalar { .. } | Self::List(_) => &[],
        }
    }

    pub(crate) fn member_mut(&mut self, name: &str) -> Option<&mut Member> {
        match self {
            Self::Object(members) => members.iter_mut().find(|member| member.name == name),
            Self::Scalar { .. } | Self::List(_) => None,
        }
    }

    /// Sets the value at a path, creating the objects above it. Returns `false`, with nothing
    /// changed, if a parent is not an object.
    pub(crate) fn put(&mut self, path: &[String], place: TextPosition, value: Self) -> bool {
        let Some((name, rest)) = path.split_first() else {
            *self = value;
            return true;
        };
        if self.is_blank() {
            *self = Self::Object(Vec::new());
        }
        if let Some(member) = self.member_mut(name) {
            let put = member.value.put(rest, place, value);
            if put && rest.is_empty() {
                member.place = place;
            }
            return put;
        }
        let Self::Object(members) = self else {
            return false;
        };
        let mut below = Self::Object(Vec::new());
        let put = below.put(rest, place, value);
        members.push(Member {
            name: name.clone(),
            written: name.clone(),
            known: true,
            place,
            value: below,
        });
        put
    }

    /// Removes and returns the key at a path.
    pub(crate) fn take(&mut self, path: &[String]) -> Option<Member> {
        let (name, rest) = path.split_first()?;
        if !rest.is_empty() {
            return self.member_mut(name)?.value.take(rest);
        }
        let Self::Object(members) = self else {
            return None;
        };
        let index = members.iter().position(|member| member.name == *name)?;
        Some(members.remove(index))
    }

    pub(crate) fn member_at(&self, path: &[String]) -> Option<&Member> {
        let (name, above) = path.split_last()?;
        self.at(above)?
            .members()
            .iter()
            .find(|member| member.name == *name)
    }

    pub(crate) fn at(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |node, part| {
            let found = node.members().iter().find(|member| member.name == *part)?;
            Some(&found.value)
        })
    }

    /// Returns `true` for `null` and `""`, which count as absent.
    pub(crate) fn is_blank(&self) -> bool {
        match self {
            Self::Scalar { value, .. } => value.is_null() || self.is_empty_text(),
            Self::List(_) | Self::Object(_) => false,
        }
    }

    /// Returns `true` for `""`, which is a value for a few keys.
    pub(crate) fn is_empty_text(&self) -> bool {
        matches!(self, Self::Scalar { value, .. } if value.as_str() == Some(""))
    }

    /// Returns the value with canonical names, blank values included.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Scalar { value, .. } => value.clone(),
            Self::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Self::Object(members) => Value::Object(
                members
                    .iter()
                    .map(|member| (member.name.clone(), member.value.to_value()))
                    .collect(),
            ),
        }
    }

    /// Renders the file with two spaces of indentation, order and spellings kept, and one newline
    /// at the end.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text.push('\n');
        text
    }

    fn write(&self, text: &mut String, depth: usize) {
        let line = |text: &mut String, depth: usize| {
            text.push('\n');
            text.push_str(&"  ".repeat(depth));
        };
        match self {
            Self::Scalar { token, .. } => text.push_str(token),
            Self::List(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    text.push_str(if index > 0 { "," } else { "" });
                    line(text, depth + 1);
                    item.write(text, depth + 1);
                }
                if !items.is_empty() {
                    line(text, depth);
                }
                text.push(']');
            }
            Self::Object(members) => {
                text.push('{');
                for (index, member) in members.iter().enumerate() {
                    text.push_str(if index > 0 { "," } else { "" });
                    line(text, depth + 1);
                    text.push_str(&Value::from(member.saved_name()).to_string());
                    text.push_str(": ");
                    member.value.write(text, depth + 1);
                }
                if !members.is_empty() {
                    line(text, depth);
                }
                text.push('}');
            }
        }
    }
}

/// Content of a file.
pub(crate) enum ConfigDocument {
    /// White space only.
    Empty,
    Object(Node),
}

/// Parses the bytes of a file, with or without a byte order mark.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<ConfigDocument, ConfigError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let before = String::from_utf8_lossy(valid);
        let TextPosition { line, column } = end_of(&before);
        ConfigError::NotUtf8 {
            path: path.to_path_buf(),
            line,
            column,
        }
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(ConfigDocument::Empty);
    }
    let node = scan(text).map_err(|(place, reason)| ConfigError::Syntax {
        path: path.to_path_buf(),
        line: place.line,
        column: place.column,
        reason,
    })?;
    match node {
        Node::Object(_) => Ok(ConfigDocument::Object(node)),
        Node::List(_) | Node::Scalar { .. } => Err(ConfigError::NotAnObject {
            path: path.to_path_buf(),
            found: crate::describe::json(&node.to_value(), false),
        }),
    }
}

/// Parses one JSON value.
pub(crate) fn scan(text: &str) -> Result<Node, (TextPosition, String)> {
    serde_json::from_str::<Value>(text).map_err(|error| {
        let message = error.to_string();
        let reason = message
            .split_once(" at line ")
            .map_or(message.as_str(), |(reason, _)| reason)
            .to_owned();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).max(1);
        let place = TextPosition {
            line: count(error.line()),
            column: count(error.column()),
        };
        (place, reason)
    })?;
    let mut scanner = Scanner {
        rest: text.chars().peekable(),
        place: TextPosition { line: 1, column: 1 },
    };
    scanner
        .value()
        .ok_or_else(|| (scanner.place, "the text ends too early".to_owned()))
}

fn end_of(text: &str) -> TextPosition {
    let mut place = TextPosition { line: 1, column: 1 };
    for letter in text.chars() {
        place.pass(letter);
    }
    place
}

impl TextPosition {
    fn pass(&mut self, letter: char) {
        if letter == '\n' {
            self.line = self.line.saturating_add(1);
            self.column = 1;
        } else {
            self.column = self.column.saturating_add(1);
        }
    }
}

/// Walks text that is known to be valid JSON (so its depth is bounded too). Its methods return
/// `None` if it is not.
struct Scanner<'a> {
    rest: Peekable<Chars<'a>>,
    place: TextPosition,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.rest.next()?;
        self.place.pass(letter);
        Some(letter)
    }

    /// Skips white space and returns the next character without consuming it.
    fn peek(&mut self) -> Option<char> {
        while self.rest.peek()?.is_ascii_whitespace() {
            self.next();
        }
        self.rest.peek().copied()
    }

    fn value(&mut self) -> Option<Node> {
        match self.peek()? {
            '{' => self.object(),
            '[' => self.list(),
            '"' => {
                let token = self.string_token()?;
                Self::scalar(token)
            }
            _ => {
                let mut token = String::new();
                while let Some(letter) = self.rest.peek().copied() {
                    if matches!(letter, ',' | ']' | '}') || letter.is_ascii_whitespace() {
                        break;
                    }
                    token.push(letter);
                    self.next();
                }
                Self::scalar(token)
            }
        }
    }

    fn scalar(token: String) -> Option<Node> {
        let value = serde_json::from_str(&token).ok()?;
        Some(Node::Scalar { value, token })
    }

    fn string_token(&mut self) -> Option<String> {
        let mut token = String::new();
        token.push(self.next()?);
        loop {
            let letter = self.next()?;
            token.push(letter);
            match letter {
                '"' => return Some(token),
                '\\' => token.push(self.next()?),
                _ => {}
            }
        }
    }

    fn list(&mut self) -> Option<Node> {
        self.next()?;
        let mut items = Vec::new();
        loop {
            match self.peek()? {
                ']' => {
                    self.next()?;
                    return Some(Node::List(items));
                }
                ',' => {
                    self.next()?;
                }
                _ => items.push(self.value()?),
            }
        }
    }

    fn object(&mut self) -> Option<Node> {
        self.next()?;
        let mut members = Vec::new();
        loop {
            match self.peek()? {
                '}' => {
                    self.next()?;
                    return Some(Node::Object(members));
                }
                ',' => {
                    self.next()?;
                }
                _ => members.push(self.member()?),
            }
        }
    }

    fn member(&mut self) -> Option<Member> {
        let place = self.place;
        let token = self.string_token()?;
        let written: String = serde_json::from_str(&token).ok()?;
        self.peek()?;
        self.next()?;
        let value = self.value()?;
        Some(Member {
            name: written.clone(),
            written,
            known: false,
            place,
            value,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scan_keeps_positions_order_and_spellings() {
        let text = "{\n  \"b\": 1.50,\n  \"å\": [], \"a\": {\"x\": \"\\u00e9é\"}\n}\n";
        let node = scan(text).unwrap();
        let places: Vec<_> = node
            .members()
            .iter()
            .map(|member| {
                (
                    member.written.as_str(),
                    member.place.line,
                    member.place.column,
                )
            })
            .collect();
        assert_eq!(places, [("b", 2, 3), ("å", 3, 3), ("a", 3, 12)]);
        assert_eq!(
            node.render(),
            "{\n  \"b\": 1.50,\n  \"å\": [],\n  \"a\": {\n    \"x\": \"\\u00e9é\"\n  }\n}\n"
        );
    }

    #[test]
    fn large_numbers_keep_every_digit() {
        let text = "{\n  \"id\": 123456789012345678901234567890\n}\n";
        assert_eq!(scan(text).unwrap().render(), text);
    }
}
