//! Queries the index.
//!
//! Decision: all words must match at first. If that finds next to nothing, the most frequent word
//! is left out, then the next, so that a rare word decides and a misremembered one does no harm.
//! BM25 ranks the matches. Words that occur nearly everywhere say little, and ranking their matches
//! is what takes time: a query of only such words returns the newest places, and a query with other
//! words uses only a few of them.

use std::path::PathBuf;

use nanobot_session::SessionReach;
use nanobot_types::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::database::Corpus;
use super::lines::LineFormat;
use super::terms::Term;

/// Maximum number of places that are ranked.
const MAX_RANKED: usize = 1_000;
/// Maximum number of common words in a query. A word is common if it is in more places than are
/// ranked.
const MAX_COMMON_WORDS: usize = 3;
/// Number of matches from which no more words are left out.
const ENOUGH_MATCHES: usize = 3;
/// Number of places fetched per wanted one, because several may have the same text.
const OVERFETCH: usize = 3;
/// Score of each matching word; greater than any BM25 score.
const WORD_SCORE: f64 = 1_000.0;

/// The part of the index that may be searched.
pub(crate) enum SearchScope {
    Folders(Vec<PathBuf>),
    Sessions {
        folders: Vec<PathBuf>,
        reach: SessionReach,
    },
}

/// A matching place.
#[derive(Clone, Debug)]
pub(crate) struct Match {
    pub(crate) path: PathBuf,
    pub(crate) form: LineFormat,
    pub(crate) session: Option<String>,
    pub(crate) line: u32,
    pub(crate) seq: u64,
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) score: f64,
}

/// A place with its contents.
#[derive(Debug)]
pub(crate) struct SearchHit {
    pub(crate) place: Match,
    pub(crate) excerpt: String,
    pub(crate) role: String,
    pub(crate) at: Option<Timestamp>,
}

impl SearchScope {
    /// Returns an SQL condition on the sources, and its parameters.
    fn condition(&self) -> (String, Vec<Value>) {
        let (Self::Folders(folders) | Self::Sessions { folders, .. }) = self;
        let mut values: Vec<Value> = folders
            .iter()
            .map(|folder| text(&folder.to_string_lossy()))
            .collect();
        let marks = vec!["?"; values.len()].join(", ");
        let mut condition = format!("source.folder IN ({marks})");
        if let Self::Sessions {
            reach: SessionReach::Of { session, audience },
            ..
        } = self
        {
            condition.push_str(" AND (source.session = ? OR source.audience = ?)");
            values.push(text(session.as_str()));
            values.push(
                audience
                    .as_ref()
                    .map_or(Value::Null, |audience| text(audience)),
            );
        }
        (condition, values)
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Returns the best places, the best first. They are more than `limit`, because some may turn out
/// to be equal.
pub(crate) fn places(
    connection: &Connection,
    family: Corpus,
    terms: &[Term],
    within: &SearchScope,
    limit: usize,
) -> rusqlite::Result<Vec<Match>> {
    let mut query_terms = Vec::new();
    for term in terms {
        let asked_for = counted(connection, family, term)?;
        if asked_for.count > 0 {
            query_terms.push(asked_for);
        }
    }
    query_terms.sort_by_key(|query_terms| query_terms.count);
    query_terms.truncate(
        query_terms
            .iter()
            .filter(|query_terms| !query_terms.is_common())
            .count()
            + MAX_COMMON_WORDS,
    );
    let together = (1..=query_terms.len())
        .rev()
        .filter_map(|count| query_terms.get(..count));
    let alone = query_terms.iter().skip(1).map(std::slice::from_ref);
    let mut found: Vec<(i64, Match)> = Vec::new();
    for words in together.chain(alone) {
        let worth = WORD_SCORE * words.len() as f64;
        for (id, place) in matching(
            connection,
            family,
            words,
            within,
            limit.saturating_mul(OVERFETCH),
        )? {
            if found.iter().all(|(known, _)| *known != id) {
                found.push((
                    id,
                    Match {
                        score: place.score + worth,
                        ..place
                    },
                ));
            }
        }
        if found.len() >= ENOUGH_MATCHES.min(limit) {
            break;
        }
    }
    Ok(found.into_iter().map(|(_, place)| place).collect())
}

/// A word of the query that occurs in the index.
struct CountedTerm<'a> {
    /// Number of places with the word, counted up to [`MAX_RANKED`] + 1.
    count: usize,
    expression: &'a str,
}

impl CountedTerm<'_> {
    fn is_common(&self) -> bool {
        self.count > MAX_RANKED
    }
}

/// Counts the places with a word. If the exact word is common by itself, its prefix matches are not
/// searched.
fn counted<'a>(
    connection: &Connection,
    family: Corpus,
    term: &'a Term,
) -> rusqlite::Result<CountedTerm<'a>> {
    let sql = family.sql(&format!(
        "SELECT count(*) FROM (SELECT 1 FROM $_words WHERE $_words MATCH ?1 LIMIT {MAX_RANKED} + 1)"
    ));
    let mut select = connection.prepare_cached(&sql)?;
    let mut count = |expression: &'a str| {
        let count: i64 = select.query_row([expression], |row| row.get(0))?;
        Ok::<_, rusqlite::Error>(CountedTerm {
            count: usize::try_from(count).unwrap_or(0),
            expression,
        })
    };
    if let Some(exact) = &term.exact {
        let exact = count(exact)?;
        if exact.is_common() {
            return Ok(exact);
        }
    }
    count(&term.expression)
}

fn matching(
    connection: &Connection,
    family: Corpus,
    words: &[CountedTerm<'_>],
    within: &SearchScope,
    limit: usize,
) -> rusqlite::Result<Vec<(i64, Match)>> {
    let expression: Vec<&str> = words
        .iter()
        .map(|query_terms| query_terms.expression)
        .collect();
    let score = if words.iter().all(CountedTerm::is_common) {
        "0.0"
    } else {
        "bm25($_words)"
    };
    let (condition, values) = within.condition();
    let sql = family.sql(&format!(
        "SELECT id, folder, name, session, line, seq, start, length, score FROM (
             SELECT piece.id, source.folder, source.name, source.session, piece.line, piece.seq, piece.start,
                    piece.length, {score} AS score
             FROM $_words
             CROSS JOIN $_piece AS piece ON piece.id = $_words.rowid
             CROSS JOIN $_source AS source ON source.id = piece.source
             WHERE $_words MATCH ? AND {condition}
             ORDER BY $_words.rowid DESC LIMIT {MAX_RANKED})
         ORDER BY score, id DESC LIMIT {limit}"
    ));
    let mut select = connection.prepare_cached(&sql)?;
    let parameters = std::iter::once(text(&expression.join(" AND "))).chain(values);
    let rows = select.query_map(params_from_iter(parameters), |row| {
        let folder: String = row.get(1)?;
        let path = PathBuf::from(folder).join(row.get::<_, String>(2)?);
        let number = |column| {
            row.get::<_, i64>(column)
                .map(|number| u64::try_from(number).unwrap_or(0))
        };
        let place = Match {
            form: LineFormat::of(family, &path).unwrap_or(LineFormat::Markdown),
            path,
            session: row.get(3)?,
            line: u32::try_from(number(4)?).unwrap_or(u32::MAX),
            seq: number(5)?,
            start: number(6)?,
            length: number(7)?,
            // FTS5 gives better matches lower numbers.
            score: -row.get::<_, f64>(8)?,
        };
        Ok((row.get(0)?, place))
    })?;
    rows.collect()
}
