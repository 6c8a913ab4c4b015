//! The overhead of markup where a platform counts it.
//!
//! Decision: an overhead is an upper bound, known before anything is rendered. So a piece that is
//! split by it fits, whatever surrounds it, and is rendered once.

use std::iter::Peekable;
use std::ops::Range;
use std::slice::Iter;

use nanobot_markup::{Document, Measure, Overhead, slice};

/// Overhead of a text at each place. Empty if markup is not counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overheads {
    /// Bytes of the text and the overhead there, ascending.
    points: Vec<(usize, usize)>,
    /// Ranges and the overhead that a piece has in addition if it begins inside; the ranges begin
    /// ascending.
    reopened: Vec<(Range<usize>, usize)>,
}

impl Overheads {
    /// Returns the overheads of a document whose markup is counted.
    pub(crate) fn of(document: &Document, overhead: &dyn Overhead, measure: Measure) -> Self {
        let mut overheads = Self::default();
        let mut pre = document
            .spans
            .iter()
            .filter(|span| span.mark.is_pre())
            .peekable();
        for (at, c) in document.text.char_indices() {
            while pre.next_if(|span| span.range.end <= at).is_some() {}
            let in_pre = pre.peek().is_some_and(|span| span.range.start <= at);
            overheads.add(at, overhead.of_char(c, in_pre, measure));
        }
        for span in &document.spans {
            let text = slice(&document.text, span.range.clone());
            let length = overhead.of_mark(&span.mark, text, measure);
            overheads.add(span.range.start, length);
            if !span.mark.is_pre() {
                // Marks do not cross lines: they are closed and opened again.
                for (offset, _) in text.match_indices('\n') {
                    overheads.add(span.range.start + offset + 1, length);
                }
            }
            overheads.reopened.push((span.range.clone(), length));
        }
        overheads.points.sort_unstable();
        overheads
    }

    fn add(&mut self, at: usize, length: usize) {
        if length > 0 {
            self.points.push((at, length));
        }
    }

    /// Returns the overheads from `at` on.
    pub(crate) fn from(&self, at: usize) -> Points<'_> {
        let first = self.points.partition_point(|(place, _)| *place < at);
        Points(
            self.points
                .get(first..)
                .unwrap_or_default()
                .iter()
                .peekable(),
        )
    }

    /// Returns the overheads of marks that are opened again, to be asked for at ascending places.
    pub(crate) fn reopened(&self) -> Reopened<'_> {
        Reopened {
            later: self.reopened.iter().peekable(),
            open: Vec::new(),
        }
    }
}

/// The overheads at ascending places.
#[derive(Debug)]
pub(crate) struct Points<'a>(Peekable<Iter<'a, (usize, usize)>>);

impl Points<'_> {
    /// Returns the sum up to `at`, without what was returned before.
    pub(crate) fn until(&mut self, at: usize) -> usize {
        let mut sum = 0;
        while let Some((_, length)) = self.0.next_if(|(place, _)| *place <= at) {
            sum += length;
        }
        sum
    }
}

/// The overhead of pieces that begin inside of marks.
#[derive(Debug)]
pub(crate) struct Reopened<'a> {
    later: Peekable<Iter<'a, (Range<usize>, usize)>>,
    open: Vec<&'a (Range<usize>, usize)>,
}

impl Reopened<'_> {
    /// Returns the additional overhead of a piece that begins at `at`.
    pub(crate) fn at(&mut self, at: usize) -> usize {
        while let Some(mark) = self.later.next_if(|(range, _)| range.start < at) {
            self.open.push(mark);
        }
        self.open.retain(|(range, _)| range.end > at);
        self.open.iter().map(|(_, length)| length).sum()
    }
}
