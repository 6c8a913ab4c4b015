//! Words of a script: quotes, escapes and expansions.

use super::{ParseError, ShellParser, ShellScript};

/// A word with its quotes removed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(in crate::exec) struct Word {
    pub(in crate::exec) parts: Vec<WordPart>,
}

/// Part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::exec) enum WordPart {
    /// Literal text.
    Text(String),
    /// A leading `~`.
    Home,
    /// A variable, by name.
    Variable(String),
    /// An unquoted `*`, `?` or `[`.
    Glob(char),
    /// The output of a substitution, which is unknown.
    Unknown,
}

impl Word {
    /// Returns the word as text, with `$NAME` for variables and `…` for unknown parts.
    pub(in crate::exec) fn written(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                WordPart::Text(text) => text.clone(),
                WordPart::Home => "~".to_owned(),
                WordPart::Variable(name) => format!("${name}"),
                WordPart::Glob(mark) => mark.to_string(),
                WordPart::Unknown => "…".to_owned(),
            })
            .collect()
    }

    fn push(&mut self, character: char) {
        if let Some(WordPart::Text(text)) = self.parts.last_mut() {
            text.push(character);
        } else {
            self.parts.push(WordPart::Text(character.to_string()));
        }
    }
}

impl ShellParser {
    /// Parses one word; scripts in its substitutions are added to `nested`.
    pub(super) fn word(&mut self, nested: &mut Vec<ShellScript>) -> Result<Word, ParseError> {
        let mut word = Word::default();
        if self.peek() == Some('~')
            && matches!(
                self.peek_at(1),
                None | Some('/' | ' ' | '\n' | ';' | '&' | '|' | ')')
            )
        {
            self.position += 1;
            word.parts.push(WordPart::Home);
        }
        while let Some(next) = self.peek() {
            match next {
                '<' | '>' if word.parts.is_empty() && self.peek_at(1) == Some('(') => {
                    self.position += 2;
                    nested.push(self.inner()?);
                    word.parts.push(WordPart::Unknown);
                }
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\\' => {
                    self.position += 1;
                    match self.next() {
                        Some('\n') | None => {}
                        Some(escaped) => word.push(escaped),
                    }
                }
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word, nested)?,
                '$' | '`' => self.expansion(&mut word, nested)?,
                '*' | '?' | '[' => {
                    self.position += 1;
                    word.parts.push(WordPart::Glob(next));
                }
                _ => {
                    self.position += 1;
                    word.push(next);
                }
            }
        }
        Ok(word)
    }

    /// Collects the scripts in a text that is otherwise literal, such as a here-document.
    pub(super) fn substitutions(
        &mut self,
        nested: &mut Vec<ShellScript>,
    ) -> Result<(), ParseError> {
        let mut ignored = Word::default();
        while let Some(next) = self.peek() {
            match next {
                '\\' => self.position += 2,
                '$' if self.peek_at(1) == Some('\'') => self.position += 2,
                '$' | '`' => self.expansion(&mut ignored, nested)?,
                _ => self.position += 1,
            }
        }
        Ok(())
    }

    /// Parses the script up to the closing parenthesis.
    fn inner(&mut self) -> Result<ShellScript, ParseError> {
        self.depth += 1;
        if self.depth > super::MAX_DEPTH {
            return Err(ParseError);
        }
        let script = self.script(Some(')'));
        self.depth -= 1;
        script
    }

    fn single_quoted(&mut self, word: &mut Word) -> Result<(), ParseError> {
        self.position += 1;
        word.parts.push(WordPart::Text(String::new()));
        loop {
            match self.next().ok_or(ParseError)? {
                '\'' => return Ok(()),
                character => word.push(character),
            }
        }
    }

    fn double_quoted(
        &mut self,
        word: &mut Word,
        nested: &mut Vec<ShellScript>,
    ) -> Result<(), ParseError> {
        self.position += 1;
        word.parts.push(WordPart::Text(String::new()));
        loop {
            match self.peek().ok_or(ParseError)? {
                '"' => {
                    self.position += 1;
                    return Ok(());
                }
                '\\' => {
                    self.position += 1;
                    match self.next().ok_or(ParseError)? {
                        '\n' => {}
                        escaped @ ('$' | '`' | '"' | '\\') => word.push(escaped),
                        other => {
                            word.push('\\');
                            word.push(other);
                        }
                    }
                }
                '$' if matches!(self.peek_at(1), Some('\'' | '"')) => {
                    self.position += 1;
                    word.push('$');
                }
                '$' | '`' => self.expansion(word, nested)?,
                character => {
                    self.position += 1;
                    word.push(character);
                }
            }
        }
    }

    /// Parses an expansion, which begins with a dollar sign or a backquote.
    fn expansion(
        &mut self,
        word: &mut Word,
        nested: &mut Vec<ShellScript>,
    ) -> Result<(), ParseError> {
        self.expansions += 1;
        if self.expansions > super::MAX_EXPANSIONS {
            return Err(ParseError);
        }
        if self.eat("`") {
            let text = self.until_backquote()?;
            nested.push(self.nested(&text, |inner| inner.script(None))?);
            word.parts.push(WordPart::Unknown);
        } else if self.eat("$((") {
            self.arithmetic(nested)?;
            word.parts.push(WordPart::Unknown);
        } else if self.eat("$(") {
            nested.push(self.inner()?);
            word.parts.push(WordPart::Unknown);
        } else if self.eat("${") {
            let text = self.until_brace()?;
            if text.chars().all(is_name) {
                word.parts.push(WordPart::Variable(text));
            } else {
                self.nested(&text, |inner| inner.substitutions(nested))?;
                word.parts.push(WordPart::Unknown);
            }
        } else if self.eat("$'") {
            self.escaped_quotes(word)?;
        } else if self.eat("$\"") {
            self.position -= 1;
            self.double_quoted(word, nested)?;
        } else {
            self.position += 1;
            self.variable(word);
        }
        Ok(())
    }

    fn variable(&mut self, word: &mut Word) {
        let mut name = String::new();
        while let Some(next) = self.peek().filter(|next| is_name(*next)) {
            self.position += 1;
            name.push(next);
        }
        match (name.is_empty(), self.peek()) {
            (false, _) => word.parts.push(WordPart::Variable(name)),
            (true, Some('@' | '*' | '#' | '?' | '-' | '$' | '!')) => {
                self.position += 1;
                word.parts.push(WordPart::Unknown);
            }
            (true, _) => word.push('$'),
        }
    }

    fn until_backquote(&mut self) -> Result<String, ParseError> {
        let mut text = String::new();
        loop {
            match self.next().ok_or(ParseError)? {
                '`' => return Ok(text),
                '\\' => match self.next().ok_or(ParseError)? {
                    escaped @ ('`' | '\\' | '$') => text.push(escaped),
                    other => text.extend(['\\', other]),
                },
                character => text.push(character),
            }
        }
    }

    fn until_brace(&mut self) -> Result<String, ParseError> {
        let mut text = String::new();
        let mut open = 1;
        loop {
            let next = self.next().ok_or(ParseError)?;
            match next {
                '{' => open += 1,
                '}' => open -= 1,
                _ => {}
            }
            if open == 0 {
                return Ok(text);
            }
            text.push(next);
        }
    }

    /// Skips an arithmetic expansion and collects its substitutions. One that does not end with two
    /// parentheses is parsed again, as the substitution of a script that begins with a subshell.
    fn arithmetic(&mut self, nested: &mut Vec<ShellScript>) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > super::MAX_DEPTH {
            return Err(ParseError);
        }
        let start = self.position;
        let mut ignored = Word::default();
        let mut open = 2;
        while open > 0 {
            match self.peek().ok_or(ParseError)? {
                '$' | '`' => {
                    self.expansion(&mut ignored, nested)?;
                    continue;
                }
                '(' => open += 1,
                ')' => open -= 1,
                _ => {}
            }
            self.position += 1;
        }
        self.depth -= 1;
        let last = self
            .position
            .checked_sub(2)
            .and_then(|at| self.characters.get(at));
        if last != Some(&')') {
            self.position = start - 1;
            nested.push(self.inner()?);
        }
        Ok(())
    }

    /// Parses the rest of a `$'…'` string.
    fn escaped_quotes(&mut self, word: &mut Word) -> Result<(), ParseError> {
        word.parts.push(WordPart::Text(String::new()));
        loop {
            match self.next().ok_or(ParseError)? {
                '\'' => return Ok(()),
                '\\' => {
                    let escaped = self.next().ok_or(ParseError)?;
                    let character = match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'e' | 'E' => '\u{1b}',
                        'x' => self.number(16, 2),
                        'u' => self.number(16, 4),
                        'U' => self.number(16, 8),
                        '0'..='7' => {
                            self.position -= 1;
                            self.number(8, 3)
                        }
                        other => other,
                    };
                    word.push(character);
                }
                character => word.push(character),
            }
        }
    }

    /// Parses up to `digits` digits as the code of a character.
    fn number(&mut self, radix: u32, digits: usize) -> char {
        let mut code = 0;
        for _ in 0..digits {
            let Some(digit) = self.peek().and_then(|next| next.to_digit(radix)) else {
                break;
            };
            self.position += 1;
            code = code * radix + digit;
        }
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
