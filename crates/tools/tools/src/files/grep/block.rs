//! Searches the content of one file, line by line.

use std::{collections::VecDeque, ops::ControlFlow};

use regex::bytes::Regex;

use super::super::walk::{Limits, Stop};

/// Number of bytes that are searched between two checks of the limits.
const BLOCK: usize = 256 << 10;
/// Maximum number of bytes of a line that are searched.
const MAX_LINE: usize = 1 << 20;
/// Maximum length of a line that is shown, in characters.
const MAX_SHOWN: usize = 300;
/// Number of characters that are shown before a match in a long line.
const BEFORE: usize = 60;
/// Length of the beginning of a file in which a null byte marks it as binary, in bytes.
const BINARY: usize = 8 << 10;

/// The matching lines of one file, with their context.
#[derive(Debug)]
pub(super) struct FileMatches {
    /// Number of matching lines.
    pub(super) count: usize,
    /// Line numbers with their text, `true` for a match.
    lines: Vec<(usize, bool, String)>,
    context: usize,
    most: usize,
    before: VecDeque<(usize, String)>,
    after: usize,
}

impl FileMatches {
    /// Collects at most `most` matching lines.
    pub(super) fn new(context: usize, most: usize) -> Self {
        Self {
            count: 0,
            lines: Vec::new(),
            context,
            most,
            before: VecDeque::new(),
            after: 0,
        }
    }

    fn is_complete(&self) -> bool {
        self.count >= self.most && self.after == 0
    }

    /// Adds the next line; `at` is the place of its match in bytes.
    fn add(&mut self, number: usize, line: &[u8], at: Option<usize>) {
        match at.filter(|_| self.count < self.most) {
            Some(at) => {
                self.count += 1;
                // A count without a limit is shown without lines.
                if self.most == usize::MAX {
                    return;
                }
                let earlier = self.before.drain(..);
                self.lines
                    .extend(earlier.map(|(number, text)| (number, false, text)));
                self.lines.push((number, true, shown(line, at)));
                self.after = self.context;
            }
            None if self.after > 0 => {
                self.after -= 1;
                self.lines.push((number, false, shown(line, 0)));
            }
            None if self.context > 0 && self.count < self.most => {
                if self.before.len() == self.context {
                    self.before.pop_front();
                }
                self.before.push_back((number, shown(line, 0)));
            }
            None => {}
        }
    }

    /// Writes `name:3: a match` and `name-2- context`, with `--` between groups of lines.
    pub(super) fn list(&self, name: &str, into: &mut String) {
        let mut last: Option<usize> = None;
        if self.context > 0 && !into.is_empty() {
            into.push_str("--\n");
        }
        for (number, is_match, text) in &self.lines {
            if self.context > 0 && last.is_some_and(|last| last + 1 < *number) {
                into.push_str("--\n");
            }
            let mark = if *is_match { ':' } else { '-' };
            into.push_str(&format!("{name}{mark}{number}{mark} {text}\n"));
            last = Some(*number);
        }
    }
}

/// Searches `content`. A binary file has no matches.
pub(super) fn search(
    expression: &Regex,
    content: &[u8],
    limits: &Limits,
    found: &mut FileMatches,
) -> ControlFlow<Stop> {
    if content.iter().take(BINARY).any(|byte| *byte == 0) {
        return ControlFlow::Continue(());
    }
    let mut rest = content;
    let mut number = 0;
    while !rest.is_empty() && !found.is_complete() {
        limits.check()?;
        let (block, after) = next_block(rest);
        rest = after;
        // Most blocks have no match at all. A long line is searched alone, and only in part.
        let searched = block.get(..MAX_LINE).unwrap_or(block);
        let may_match = found.count < found.most && expression.is_match(searched);
        for line in lines(block) {
            number += 1;
            if found.is_complete() {
                break;
            }
            let place = || {
                let line = line.get(..MAX_LINE).unwrap_or(line);
                expression.find(line).map(|place| place.start())
            };
            found.add(number, line, if may_match { place() } else { None });
        }
    }
    ControlFlow::Continue(())
}

/// Splits off whole lines of about [`BLOCK`] bytes, at least one.
fn next_block(rest: &[u8]) -> (&[u8], &[u8]) {
    let is_break = |byte: &u8| *byte == b'\n';
    let head = rest.get(..BLOCK).unwrap_or(rest);
    let end = if head.len() == rest.len() {
        rest.len()
    } else if let Some(last) = head.iter().rposition(is_break) {
        last + 1
    } else {
        let next = rest.iter().position(is_break);
        next.map_or(rest.len(), |at| at + 1)
    };
    rest.split_at_checked(end).unwrap_or((rest, &[]))
}

/// Splits a block into lines without their ends.
fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let block = block.strip_suffix(b"\n").unwrap_or(block);
    block
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Returns a line as text of a bounded length around byte `at`.
fn shown(line: &[u8], at: usize) -> String {
    // A character has at most 4 bytes.
    let from = if at > BEFORE * 4 { at - BEFORE } else { 0 };
    let to = from.saturating_add(MAX_SHOWN * 4).min(line.len());
    let text = String::from_utf8_lossy(line.get(from..to).unwrap_or_default());
    let is_cut = to < line.len() || text.chars().count() > MAX_SHOWN;
    let part: String = text.chars().take(MAX_SHOWN).collect();
    let part = nanobot_escape::sanitize_line(&part);
    let (start, end) = (
        if from > 0 { "…" } else { "" },
        if is_cut { "…" } else { "" },
    );
    format!("{start}{part}{end}")
}
