//! Splits text that is too long: preferably between blocks, then lines, sentences, words,
//! graphemes.
//!
//! A cut of a higher kind is taken only in the second half of the available room, so that one long
//! paragraph does not leave a trail of tiny parts. White space at a cut is dropped; nothing else
//! is.

use std::ops::Range;

use nanobot_markup::{Document, Mark, Measure, slice};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::overhead::Overheads;

/// A range of code: it is cut between lines only, and its indentation is kept.
#[derive(Clone, Debug)]
pub(crate) struct Verbatim {
    /// The range in bytes.
    pub(crate) range: Range<usize>,
    /// The text before a part that begins inside.
    pub(crate) reopen: String,
    /// The text after a part that ends inside.
    pub(crate) close: String,
}

/// A text with the facts that splitting needs.
#[derive(Clone, Debug)]
pub(crate) struct Flow<'a> {
    /// The text.
    pub(crate) text: &'a str,
    /// The beginnings of blocks, ascending.
    pub(crate) blocks: Vec<usize>,
    /// Code, ascending and disjoint.
    pub(crate) verbatim: Vec<Verbatim>,
    /// Ranges that should stay in one piece, ascending and disjoint.
    pub(crate) whole: Vec<Range<usize>>,
    /// Overhead of the markup, if it is counted.
    pub(crate) overheads: Overheads,
}

impl<'a> Flow<'a> {
    /// Returns the flow of a document. Its marks can be cut anywhere, since they are clipped.
    pub(crate) fn of_document(document: &'a Document, overheads: Overheads) -> Self {
        let marked = |wanted: fn(&Mark) -> bool| {
            document
                .spans
                .iter()
                .filter(move |span| wanted(&span.mark))
                .map(|span| span.range.clone())
        };
        let verbatim = marked(Mark::is_pre)
            .map(|range| Verbatim {
                range,
                reopen: String::new(),
                close: String::new(),
            })
            .collect();
        let whole = marked(|mark| matches!(mark, Mark::Address | Mark::Reference)).collect();
        Self {
            text: &document.text,
            blocks: document.blocks.clone(),
            verbatim,
            whole,
            overheads,
        }
    }

    /// Returns the code that a cut at `at` would divide.
    pub(crate) fn verbatim_at(&self, at: usize) -> Option<&Verbatim> {
        let next = self
            .verbatim
            .partition_point(|verbatim| verbatim.range.end <= at);
        self.verbatim
            .get(next)
            .filter(|verbatim| verbatim.range.start < at)
    }

    /// Returns the range that should stay in one piece and that a cut at `at` would divide.
    fn whole_at(&self, at: usize) -> Option<&Range<usize>> {
        let next = self.whole.partition_point(|range| range.end <= at);
        self.whole.get(next).filter(|range| range.start < at)
    }

    fn may_cut(&self, at: usize) -> bool {
        self.whole_at(at).is_none()
    }
}

/// Splits `flow` into pieces of at most `limit`, counting the text that is written around a cut in
/// code.
pub(crate) fn split(flow: &Flow<'_>, measure: Measure, limit: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut reopened = flow.overheads.reopened();
    let mut start = skip_blank(flow, 0);
    while start < flow.text.len() {
        let reopen = flow
            .verbatim_at(start)
            .map_or(0, |verbatim| measure.of(&verbatim.reopen));
        let room = limit.saturating_sub(reopen + reopened.at(start)).max(1);
        let end = reach(flow, start, measure, room);
        let cut = if end == flow.text.len() {
            end
        } else {
            let first = flow
                .verbatim
                .partition_point(|verbatim| verbatim.range.end <= start);
            let touched = flow
                .verbatim
                .iter()
                .skip(first)
                .take_while(|verbatim| verbatim.range.start < end);
            let close = touched
                .map(|verbatim| measure.of(&verbatim.close))
                .max()
                .unwrap_or_default();
            let cut = best_cut(
                flow,
                start,
                reach(flow, start, measure, room.saturating_sub(close).max(1)),
            );
            // At least one character, so that the loop ends whatever the flow contains.
            flow.text.ceil_char_boundary(cut.max(start + 1))
        };
        let piece = trim_end(flow, start..cut);
        if !slice(flow.text, piece.clone()).trim().is_empty() {
            pieces.push(piece);
        }
        start = skip_blank(flow, cut);
    }
    pieces
}

/// Returns the end of the text from `start` that fits into `room`: at least one character.
fn reach(flow: &Flow<'_>, start: usize, measure: Measure, mut room: usize) -> usize {
    let mut overheads = flow.overheads.from(start);
    let mut end = start;
    for c in slice(flow.text, start..flow.text.len()).chars() {
        let width = overheads.until(end).saturating_add(measure.of_char(c));
        if width > room && end > start {
            break;
        }
        room = room.saturating_sub(width);
        end += c.len_utf8();
    }
    end
}

/// Returns the best place to cut in `start..=end`.
fn best_cut(flow: &Flow<'_>, start: usize, end: usize) -> usize {
    let half = flow
        .text
        .floor_char_boundary(start + (end - start) / 2)
        .max(start + 1);
    let good = |at: &usize| *at > start && *at <= end && flow.may_cut(*at);
    let first_beyond = flow.blocks.partition_point(|at| *at <= end);
    let mut blocks = flow
        .blocks
        .iter()
        .take(first_beyond)
        .rev()
        .copied()
        .take_while(|at| *at >= half);
    if let Some(at) = blocks.find(good) {
        return at;
    }
    // One character more than fits, to see what begins at the limit.
    let beyond = flow.text.ceil_char_boundary(end + 1);
    let window = slice(flow.text, start..beyond);
    let lines = || window.rmatch_indices('\n').map(|(at, _)| start + at);
    if let Some(at) = lines().take_while(|at| *at >= half).find(good) {
        return at;
    }
    if flow.verbatim_at(end).is_none() {
        let from = flow.text.ceil_char_boundary(half);
        let late = slice(flow.text, from..beyond);
        let sentences = late
            .split_sentence_bound_indices()
            .map(|(at, _)| from + at)
            .filter(|at| *at > from);
        if let Some(at) = sentences.filter(good).last() {
            return at;
        }
        // A range that should stay in one piece begins like a word, whatever its first character
        // is.
        let divided = flow
            .whole_at(end)
            .map(|range| range.start)
            .filter(|at| *at >= half);
        if let Some(at) = divided.or_else(|| words(late).map(|at| from + at).filter(good).last()) {
            return at;
        }
    }
    if let Some(at) = lines().find(good) {
        return at;
    }
    let words_before = words(window).map(|at| start + at).filter(good).last();
    if let Some(at) = words_before.filter(|_| flow.verbatim_at(end).is_none()) {
        return at;
    }
    let graphemes = || window.grapheme_indices(true).map(|(at, _)| start + at);
    let reachable = || graphemes().skip(1).take_while(|at| *at <= end);
    reachable()
        .filter(good)
        .last()
        .or_else(|| reachable().last())
        .unwrap_or(end)
}

/// Returns the beginnings of words. A word contains a letter or digit, so punctuation stays with
/// the word before it. Every ideograph is a word.
fn words(text: &str) -> impl Iterator<Item = usize> {
    text.split_word_bound_indices()
        .filter(|(at, word)| *at > 0 && word.chars().any(char::is_alphanumeric))
        .map(|(at, _)| at)
}

/// Returns the beginning of the next piece: after white space, but in code only after one line end.
fn skip_blank(flow: &Flow<'_>, at: usize) -> usize {
    let rest = slice(flow.text, at..flow.text.len());
    if flow.verbatim_at(at).is_some() {
        return at + usize::from(rest.starts_with('\n'));
    }
    let blank = rest.len() - rest.trim_start().len();
    // The indentation of the first line of a code block is part of it.
    let next = flow
        .verbatim
        .partition_point(|verbatim| verbatim.range.start < at);
    let limit = flow
        .verbatim
        .get(next)
        .map_or(usize::MAX, |verbatim| verbatim.range.start);
    (at + blank).min(limit)
}

/// Drops the white space at the end, but in code only line ends.
fn trim_end(flow: &Flow<'_>, piece: Range<usize>) -> Range<usize> {
    let text = slice(flow.text, piece.clone());
    let kept = if flow.verbatim_at(piece.end).is_some() {
        text.trim_end_matches('\n')
    } else {
        text.trim_end()
    };
    piece.start..piece.start + kept.len()
}
