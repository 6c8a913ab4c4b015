//! Parses a command the way a POSIX shell (and mostly bash) does.
//!
//! The guard has to recognize `r''m`, `$'\x72m'` and `$(rm …)`, so quotes are removed,
//! substitutions are parsed as nested scripts, and pipelines, lists and groups are split into
//! stages. This is a parser and not an interpreter: values known only at run time (variables set by
//! the script, the output of a substitution) are marked as unknown. Keywords stay at the front of
//! their stage. A text that does not parse is an error, because a shell would not run it either.

mod word;

pub(super) use self::word::{Word, WordPart};

/// Maximum nesting of substitutions; no honest command comes near it.
const MAX_DEPTH: u32 = 24;

/// Maximum number of expansions in a script. If `$((` does not end as arithmetic, it is parsed
/// again as `$( (`, which doubles the work at each level.
const MAX_EXPANSIONS: u32 = 10_000;

/// Maximum length of a script, in bytes: Linux starts no program with a longer argument.
const LENGTH_LIMIT: usize = 128 << 10;

/// A list of stages, in source order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShellScript {
    pub(super) stages: Vec<PipelineStage>,
    /// Texts of the here-documents, in order.
    pub(super) documents: Vec<String>,
}

/// One command of a pipeline.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PipelineStage {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    /// Scripts in the substitutions of its words and here-documents.
    pub(super) nested: Vec<ShellScript>,
    /// The script in parentheses, if the stage is a subshell.
    pub(super) subshell: Option<ShellScript>,
    /// `true` if its input is the previous stage.
    pub(super) piped: bool,
}

/// A redirection to or from a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) writes: bool,
    pub(super) target: Word,
}

/// The text is not a script: a quote or parenthesis is unclosed, or a limit is exceeded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParseError;

/// Parses a whole script.
pub(super) fn parse(text: &str) -> Result<ShellScript, ParseError> {
    if text.len() > LENGTH_LIMIT {
        return Err(ParseError);
    }
    ShellParser::new(text, 0)?.script(None)
}

struct HereDocument {
    end: String,
    expands: bool,
    strips_tabs: bool,
}

struct ShellParser {
    characters: Vec<char>,
    position: usize,
    depth: u32,
    /// Number of expansions parsed so far, counting those parsed a second time.
    expansions: u32,
    documents: Vec<HereDocument>,
}

impl ShellParser {
    fn new(text: &str, depth: u32) -> Result<Self, ParseError> {
        if depth > MAX_DEPTH {
            return Err(ParseError);
        }
        Ok(Self {
            characters: text.chars().collect(),
            position: 0,
            depth,
            expansions: 0,
            documents: Vec::new(),
        })
    }

    /// Parses a text inside this one, one level deeper.
    fn nested<T>(
        &mut self,
        text: &str,
        read: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        let mut inner = Self::new(text, self.depth + 1)?;
        inner.expansions = self.expansions;
        let result = read(&mut inner);
        self.expansions = inner.expansions;
        result
    }

    fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.position + ahead).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.position += usize::from(next.is_some());
        next
    }

    /// Consumes `text` if it is next; returns `true` if it was.
    fn eat(&mut self, text: &str) -> bool {
        let found = text
            .chars()
            .enumerate()
            .all(|(ahead, expected)| self.peek_at(ahead) == Some(expected));
        if found {
            self.position += text.chars().count();
        }
        found
    }

    /// Parses stages up to and including `end`, or up to the end of the text.
    fn script(&mut self, end: Option<char>) -> Result<ShellScript, ParseError> {
        let mut script = ShellScript::default();
        let mut stage = PipelineStage::default();
        while let Some(next) = self.peek() {
            if Some(next) == end {
                self.position += 1;
                script.close(&mut stage, false);
                return Ok(script);
            }
            match next {
                ' ' | '\t' | '\r' => self.position += 1,
                '\\' if self.peek_at(1) == Some('\n') => self.position += 2,
                '\n' => {
                    self.position += 1;
                    script.close(&mut stage, false);
                    self.read_documents(&mut script)?;
                }
                '#' => {
                    while self.peek().is_some_and(|next| next != '\n') {
                        self.position += 1;
                    }
                }
                '&' if self.peek_at(1) == Some('>') => self.redirect(&mut stage)?,
                ';' | '&' | ')' => {
                    self.position += 1;
                    script.close(&mut stage, false);
                }
                '|' => {
                    let pipes = !self.eat("||");
                    if pipes {
                        self.position += 1;
                        self.eat("&");
                    }
                    script.close(&mut stage, pipes);
                }
                '(' => self.parenthesis(&mut script, &mut stage)?,
                '<' | '>' => self.redirect(&mut stage)?,
                digit if digit.is_ascii_digit() && self.is_descriptor() => {
                    self.redirect(&mut stage)?;
                }
                _ => {
                    let word = self.word(&mut stage.nested)?;
                    stage.words.push(word);
                }
            }
        }
        if end.is_some() {
            return Err(ParseError);
        }
        script.close(&mut stage, false);
        self.read_documents(&mut script)?;
        Ok(script)
    }

    /// Parses a subshell, an arithmetic command, or the empty parentheses of a function.
    fn parenthesis(
        &mut self,
        script: &mut ShellScript,
        stage: &mut PipelineStage,
    ) -> Result<(), ParseError> {
        self.position += 1;
        if !stage.words.is_empty() && self.eat(")") {
            // Drop the name of a function; its body follows.
            *stage = PipelineStage::default();
            return Ok(());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseError);
        }
        let inner = self.script(Some(')'))?;
        self.depth -= 1;
        if stage.subshell.is_some() {
            script.close(stage, false);
        }
        stage.subshell = Some(inner);
        Ok(())
    }

    /// `true` if the digits ahead are the file descriptor of a redirection.
    fn is_descriptor(&self) -> bool {
        let mut ahead = 0;
        while self
            .peek_at(ahead)
            .is_some_and(|next| next.is_ascii_digit())
        {
            ahead += 1;
        }
        matches!(self.peek_at(ahead), Some('<' | '>'))
    }

    fn redirect(&mut self, stage: &mut PipelineStage) -> Result<(), ParseError> {
        while self
            .peek()
            .is_some_and(|next| next.is_ascii_digit() || next == '&')
        {
            self.position += 1;
        }
        if matches!((self.peek(), self.peek_at(1)), (Some('<' | '>'), Some('('))) {
            let word = self.word(&mut stage.nested)?;
            stage.words.push(word);
            return Ok(());
        }
        if self.eat("<<<") {
            self.skip_blanks();
            self.word(&mut stage.nested)?;
            return Ok(());
        }
        if self.eat("<<") {
            let strips_tabs = self.eat("-");
            self.skip_blanks();
            let start = self.position;
            let end = self.word(&mut Vec::new())?;
            let written = self
                .characters
                .get(start..self.position)
                .unwrap_or_default();
            let expands = !written.iter().any(|mark| matches!(mark, '\'' | '"' | '\\'));
            self.documents.push(HereDocument {
                end: end.written(),
                expands,
                strips_tabs,
            });
            return Ok(());
        }
        let writes = self.peek() == Some('>') || self.peek_at(1) == Some('>');
        let duplicates = self.peek_at(1) == Some('&');
        while self
            .peek()
            .is_some_and(|next| matches!(next, '<' | '>' | '|' | '&'))
        {
            self.position += 1;
        }
        self.skip_blanks();
        let target = self.word(&mut stage.nested)?;
        let descriptor = target
            .written()
            .chars()
            .all(|c| c.is_ascii_digit() || c == '-');
        if !(duplicates && descriptor) {
            stage.redirects.push(Redirect { writes, target });
        }
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|next| next == ' ' || next == '\t') {
            self.position += 1;
        }
    }

    /// Reads the here-documents that were announced on the line that just ended.
    fn read_documents(&mut self, script: &mut ShellScript) -> Result<(), ParseError> {
        for document in std::mem::take(&mut self.documents) {
            let mut text = String::new();
            while self.peek().is_some() {
                let mut line = String::new();
                while let Some(next) = self.next() {
                    if next == '\n' {
                        break;
                    }
                    line.push(next);
                }
                let bare = if document.strips_tabs {
                    line.trim_start_matches('\t')
                } else {
                    &line
                };
                if bare == document.end {
                    break;
                }
                text.push_str(bare);
                text.push('\n');
            }
            if document.expands {
                let mut stage = PipelineStage::default();
                self.nested(&text, |inner| inner.substitutions(&mut stage.nested))?;
                script.close(&mut stage, false);
            }
            script.documents.push(text);
        }
        Ok(())
    }
}

impl ShellScript {
    /// Ends `stage`. If `pipes`, the next stage reads from it.
    fn close(&mut self, stage: &mut PipelineStage, pipes: bool) {
        let empty = stage.words.is_empty()
            && stage.redirects.is_empty()
            && stage.nested.is_empty()
            && stage.subshell.is_none();
        if empty {
            // A line may end after a pipe; the next stage still reads from it.
            stage.piped |= pipes;
        } else {
            let next = PipelineStage {
                piped: pipes,
                ..PipelineStage::default()
            };
            self.stages.push(std::mem::replace(stage, next));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats every stage as its words, followed by its nested scripts in brackets.
    fn outline(script: &ShellScript) -> String {
        let stages = script.stages.iter().map(|stage| {
            let mut text: Vec<String> = stage.words.iter().map(Word::written).collect();
            for redirect in &stage.redirects {
                let mark = if redirect.writes { '>' } else { '<' };
                text.push(format!("{mark}{}", redirect.target.written()));
            }
            for inner in stage.nested.iter().chain(&stage.subshell) {
                text.push(format!("[{}]", outline(inner)));
            }
            format!("{}{}", if stage.piped { "|" } else { "" }, text.join(" "))
        });
        stages.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn parses_commands_into_stages() {
        let table = [
            ("ls -la", "ls -la"),
            ("a && b || c; d & e\nf", "a; b; c; d; e; f"),
            ("a | b |& c", "a; |b; |c"),
            (r#"r''m "x y" a\ b $'\x72\162'"#, "rm x y a b rr"),
            ("echo \"$(rm -r x)\" `ls`", "echo … … [rm -r x] [ls]"),
            ("(cd a; ls) > out 2>&1", ">out [cd a; ls]"),
            (
                "echo x 1>out 2>>err &> all >| f <in",
                "echo x >out >err >all >f <in",
            ),
            ("cat <<'E' > out\nrm -rf /\nE\nls", "cat >out; ls"),
            ("cat <<E\n$(id)\nE", "cat; [id]"),
            ("bash <(curl x)", "bash … [curl x]"),
            (
                "echo $((1+2)) $HOME ${PWD} ${x:-y} # note",
                "echo … $HOME $PWD …",
            ),
            ("f() { rm x; }; f", "{ rm x; }; f"),
            ("echo 'a;b|c' \"d>e\"", "echo a;b|c d>e"),
            ("a |\nb; c \\\n d", "a; |b; c d"),
            ("echo $((1+2)) $((id) ; id)", "echo … … [[id]; id]"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(outline(&parse(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn parsing_is_bounded() {
        // A stack overflow would abort the process.
        assert_eq!(parse(&"$((".repeat(30_000)), Err(ParseError));
        // Each level is parsed twice: as arithmetic, then as a script.
        let doubled = format!("echo {}1{}", "$((".repeat(20), ") )".repeat(20));
        assert_eq!(parse(&doubled), Err(ParseError));
        assert_eq!(parse(&"$a ".repeat(50_000)), Err(ParseError));
        assert!(parse(&"$a ".repeat(5_000)).is_ok());
        assert!(parse("echo $(( 1 + $((2)) )) $((ls); (pwd))").is_ok());
    }

    #[test]
    fn rejects_unclosed_constructs() {
        let deep = format!("{}x{}", "$(".repeat(60), ")".repeat(60));
        for text in [
            "echo 'a",
            "echo \"a",
            "echo $(a",
            "echo `a",
            "(a",
            deep.as_str(),
        ] {
            assert_eq!(parse(text), Err(ParseError), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parser_terminates_on_any_text(text in "[a-z0-9 '\"\\\\$(){}\\[\\]`<>|&;#~=*?!\n-]{0,80}|\\PC{0,40}") {
            // Only termination matters, not the result.
            drop(parse(&text));
        }
    }
}
