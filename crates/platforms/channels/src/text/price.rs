//! What markup costs where a platform counts it.
//!
//! Decision: prices are the most that a dialect may write, known before anything is rendered. So a
//! piece that is cut by them fits, whatever stands around it, and is rendered once.

use std::iter::Peekable;
use std::ops::Range;
use std::slice::Iter;

use nanobot_channel::Measure;

use super::document::Document;
use super::lines::Markup;
use super::slice::slice;

/// What a text costs beside its own length. Empty where markup is not counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Prices {
    /// What is due at a byte of the text, ascending.
    charges: Vec<(usize, usize)>,
    /// What is due once more in a piece that begins inside a range; the ranges begin ascending.
    tolls: Vec<(Range<usize>, usize)>,
}

impl Prices {
    /// The prices of a document whose markup is counted.
    pub(super) fn of(document: &Document, markup: &dyn Markup, measure: Measure) -> Self {
        let mut prices = Self::default();
        let mut pre = document
            .spans
            .iter()
            .filter(|span| span.mark.is_pre())
            .peekable();
        for (at, c) in document.text.char_indices() {
            while pre.next_if(|span| span.range.end <= at).is_some() {}
            let in_pre = pre.peek().is_some_and(|span| span.range.start <= at);
            prices.charge(at, markup.letter_price(c, in_pre, measure));
        }
        for span in &document.spans {
            let text = slice(&document.text, span.range.clone());
            let price = markup.mark_price(&span.mark, text, measure);
            prices.charge(span.range.start, price);
            if !span.mark.is_pre() {
                // Marks do not cross lines: they end and begin anew.
                for (offset, _) in text.match_indices('\n') {
                    prices.charge(span.range.start + offset + 1, price);
                }
            }
            prices.tolls.push((span.range.clone(), price));
        }
        prices.charges.sort_unstable();
        prices
    }

    fn charge(&mut self, at: usize, price: usize) {
        if price > 0 {
            self.charges.push((at, price));
        }
    }

    /// What is due from `at` on.
    pub(super) fn charges_from(&self, at: usize) -> Charges<'_> {
        let first = self.charges.partition_point(|(place, _)| *place < at);
        Charges(
            self.charges
                .get(first..)
                .unwrap_or_default()
                .iter()
                .peekable(),
        )
    }

    /// The tolls, asked for at ascending places.
    pub(super) fn tolls(&self) -> Tolls<'_> {
        Tolls {
            coming: self.tolls.iter().peekable(),
            open: Vec::new(),
        }
    }
}

/// What is due at ascending places.
#[derive(Debug)]
pub(super) struct Charges<'a>(Peekable<Iter<'a, (usize, usize)>>);

impl Charges<'_> {
    /// All that is due up to `at` and was not asked for before.
    pub(super) fn until(&mut self, at: usize) -> usize {
        let mut sum = 0;
        while let Some((_, price)) = self.0.next_if(|(place, _)| *place <= at) {
            sum += price;
        }
        sum
    }
}

/// What pieces pay that begin inside of marks.
#[derive(Debug)]
pub(super) struct Tolls<'a> {
    coming: Peekable<Iter<'a, (Range<usize>, usize)>>,
    open: Vec<&'a (Range<usize>, usize)>,
}

impl Tolls<'_> {
    /// What a piece pays that begins at `at`.
    pub(super) fn at(&mut self, at: usize) -> usize {
        while let Some(toll) = self.coming.next_if(|(range, _)| range.start < at) {
            self.open.push(toll);
        }
        self.open.retain(|(range, _)| range.end > at);
        self.open.iter().map(|(_, price)| price).sum()
    }
}
