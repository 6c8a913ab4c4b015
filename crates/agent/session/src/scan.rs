//! Reads a session file from its end, only as far as needed.
//!
//! A metadata line of this program contains the number of messages before it, so counting stops at
//! the last such line. Every move of the cursor writes such a line too, so nothing before the
//! cursor has to be read. A file without one, as the Python program writes it, is read completely.
//!
//! A power cut may keep the end of an append but not its beginning. Lines that were appended
//! together are marked, and lines after a hole in their own append are not trusted.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::AtomicU64;

use nanobot_disk::DiskFile;

use crate::line::{self, Line, Parsed};
use crate::salvage::{self, SalvagedPiece};
use crate::state::SessionState;
use crate::tail::{LinesBackwards, RawLine};
use crate::{Entry, Record, Seq};

/// Ending of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileEnd {
    /// The file ends with a newline, or is empty.
    Clean,
    /// The last line is complete but lacks its newline.
    Unterminated,
    /// The last line was torn by a crash; its length in bytes.
    Torn(u64),
}

/// State of a session at the end of its file.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    pub(crate) head: Seq,
    pub(crate) state: SessionState,
    /// The key in the last metadata line.
    pub(crate) key: Option<nanobot_types::SessionKey>,
    /// `true` if a metadata line contains a count.
    pub(crate) counted: bool,
    pub(crate) ending: FileEnd,
    /// Number of unreadable lines among those read.
    pub(crate) unreadable: u64,
}

pub(crate) fn survey(
    file: &dyn DiskFile,
    length: u64,
    bytes_read: &AtomicU64,
) -> io::Result<Survey> {
    let mut last = None;
    let mut counted = false;
    let mut head = 0_u64;
    let mut ending = None;
    let mut unreadable = 0;
    for line in CheckedRecords::new(file, length, bytes_read) {
        let CheckedRecord { line, size, .. } = line?;
        if ending.is_none() {
            ending = Some(match &line {
                Line::Bad => FileEnd::Torn(size as u64),
                Line::Blank if size == 0 => FileEnd::Clean,
                _ => FileEnd::Unterminated,
            });
        }
        match line {
            Line::Blank | Line::Foreign => {}
            Line::Message(fields) => {
                head += 1;
                unreadable += u64::from(!line::is_sound(&fields));
            }
            Line::Bad => unreadable += 1,
            Line::State(line) => {
                let count = line.count;
                last.get_or_insert(line);
                if let Some(Seq(count)) = count {
                    head = head.saturating_add(count);
                    counted = true;
                    break;
                }
            }
        }
    }
    let head = Seq(head);
    let (key, mut state) = last.map_or_else(Default::default, |line| (line.key, line.state));
    if state.cursor > head {
        // Do not hide any message because of a cursor in a damaged file.
        state.cursor = Seq(0);
    }
    Ok(Survey {
        head,
        state,
        key,
        counted,
        ending: ending.unwrap_or(FileEnd::Clean),
        unreadable,
    })
}

/// Number of messages between two marks.
const STRIDE: u64 = 1024;
/// Number of parts that [`ReadRange::bytes`] is divided into. A long read omits whole parts only.
const PARTS: u64 = 4;

/// Range of a session to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadRange {
    /// Position of the first message.
    pub(crate) from: Seq,
    /// Position after the last message. Of the entries after it, only rewinds are returned.
    pub(crate) upto: Seq,
    /// Maximum size of the messages, in bytes, after which older ones are omitted. The cut is
    /// always at the beginning of a part of the file, whose size is a [fraction](PARTS) of this. As
    /// a file only grows, successive reads omit the same messages until another whole part is
    /// omitted.
    pub(crate) bytes: u64,
}

impl From<Seq> for ReadRange {
    fn from(from: Seq) -> Self {
        Self {
            from,
            upto: Seq(u64::MAX),
            bytes: u64::MAX,
        }
    }
}

impl ReadRange {
    /// `true` if the message at `offset` is omitted after `bytes` of messages, the last of which is
    /// at `last`.
    fn is_enough(&self, bytes: u64, offset: u64, last: u64) -> bool {
        let part = |offset: u64| offset.checked_div(self.bytes / PARTS);
        bytes > self.bytes && part(offset) != part(last)
    }
}

/// File offsets by the number of messages before them. With a mark, a range far from the end is
/// read without the part of the file after it. A position followed by a rewind has no mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(BTreeMap<Seq, u64>);

impl Marks {
    /// Returns the first mark at or after `seq`.
    fn before(&self, seq: Seq) -> Option<(u64, Seq)> {
        self.0
            .range(seq..)
            .next()
            .map(|(seq, offset)| (*offset, *seq))
    }

    fn set(&mut self, seq: Seq, offset: u64) {
        if seq.0.is_multiple_of(STRIDE) {
            self.0.insert(seq, offset);
        }
    }

    /// Removes all marks, because a rewind follows them now.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns the entries of `span` and the number of unreadable lines among them.
pub(crate) fn records(
    file: &dyn DiskFile,
    (length, head): (u64, Seq),
    span: ReadRange,
    marks: &mut Marks,
    bytes_read: &AtomicU64,
) -> io::Result<(Vec<Record>, u64)> {
    let from = span.from;
    let (mut bytes, mut last) = (0_u64, u64::MAX);
    let (length, head) = marks.before(span.upto).unwrap_or((length, head));
    let mut is_rewound = false;
    let mut records = Vec::new();
    let mut unreadable = 0;
    let Seq(mut seq) = head;
    let mut lines = CheckedRecords::new(file, length, bytes_read);
    while let Some(line) = lines.next() {
        let CheckedRecord { line, size, offset } = line?;
        match line {
            Line::Blank | Line::Foreign => {}
            Line::Bad => unreadable += 1,
            Line::Message(fields) => {
                if seq <= from.0 || span.is_enough(bytes, offset, last) {
                    break;
                }
                seq -= 1;
                if !is_rewound && let Some(offset) = lines.boundary() {
                    marks.set(Seq(seq), offset);
                }
                if seq >= span.upto.0 {
                    continue;
                }
                unreadable += u64::from(!line::is_sound(&fields));
                bytes = bytes.saturating_add(size as u64);
                last = offset;
                records.push(Record {
                    seq: Seq(seq),
                    entry: Entry::Message(line::message_entry(fields)),
                });
            }
            Line::State(line) => {
                // The recorded count takes precedence over our own count: a line that was damaged
                // later must not shift the positions of the others.
                seq = line.count.map_or(seq, |Seq(count)| count.min(seq));
                if seq < from.0 {
                    break;
                }
                let is_rewind =
                    |entry: &Entry| matches!(entry, Entry::Rewound { .. } | Entry::Restored);
                is_rewound |= line.entry.as_ref().is_some_and(is_rewind);
                let is_wanted = |entry: &Entry| seq < span.upto.0 || is_rewind(entry);
                records.extend(line.entry.filter(is_wanted).map(|entry| Record {
                    seq: Seq(seq),
                    entry,
                }));
            }
        }
    }
    records.reverse();
    Ok((records, unreadable))
}

/// A record, after it was checked for holes in its append.
struct CheckedRecord {
    line: Line,
    /// Length of the record, in bytes.
    size: usize,
    /// Offset of its line in the file.
    offset: u64,
}

/// Iterates over the lines from the end backwards. Lines that cannot be trusted are returned as
/// bad.
struct CheckedRecords<'a> {
    lines: LinesBackwards<'a>,
    /// Remaining records of the current line; the next one is at the end.
    pieces: Vec<(Parsed, usize)>,
    ready: VecDeque<CheckedRecord>,
}

impl<'a> CheckedRecords<'a> {
    fn new(file: &'a dyn DiskFile, length: u64, bytes_read: &'a AtomicU64) -> Self {
        Self {
            lines: LinesBackwards::new(file, length, bytes_read),
            pieces: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    fn next_record(&mut self) -> io::Result<Option<(Parsed, usize)>> {
        if self.pieces.is_empty() {
            let Some(raw) = self.lines.next() else {
                return Ok(None);
            };
            self.pieces = parse(raw?);
        }
        Ok(self.pieces.pop())
    }

    /// Returns the offset of the last append if all of its lines were returned; `None` in the
    /// middle of an append.
    fn boundary(&self) -> Option<u64> {
        (self.ready.is_empty() && self.pieces.is_empty()).then(|| self.lines.offset())
    }

    /// Reads back to the beginning of an append, or of the file.
    fn read_append(&mut self) -> io::Result<()> {
        while let Some((
            Parsed {
                line,
                continues,
                holed,
            },
            size,
        )) = self.next_record()?
        {
            let is_bad = matches!(line, Line::Bad);
            let offset = self.lines.offset();
            if holed && (is_bad || continues) {
                self.ready
                    .iter_mut()
                    .for_each(|believed| believed.line = Line::Bad);
                self.ready.push_back(CheckedRecord {
                    line: Line::Bad,
                    size,
                    offset,
                });
                return Ok(());
            }
            let is_between = matches!(line, Line::Blank) && !self.ready.is_empty();
            self.ready.push_back(CheckedRecord { line, size, offset });
            if !continues && !is_between {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Iterator for CheckedRecords<'_> {
    type Item = io::Result<CheckedRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && let Err(error) = self.read_append()
        {
            self.ready.clear();
            return Some(Err(error));
        }
        self.ready.pop_front().map(Ok)
    }
}

/// Parses the records of a line, in order, each with its length.
fn parse(raw: RawLine) -> Vec<(Parsed, usize)> {
    let bad = |length| {
        (
            Parsed {
                line: Line::Bad,
                continues: false,
                holed: false,
            },
            length,
        )
    };
    let bytes = match raw {
        RawLine::Bytes(bytes) => bytes,
        RawLine::TooLong(length) => return vec![bad(length)],
    };
    let parsed = line::parse(&bytes);
    // After a hole, nothing of the append is trusted, so there is nothing to recover.
    let is_damaged = matches!(parsed.line, Line::Bad) && !parsed.holed;
    match is_damaged.then(|| salvage::pieces(&bytes)).flatten() {
        None => vec![(parsed, bytes.len())],
        Some(pieces) => pieces
            .into_iter()
            .map(|piece| match piece {
                SalvagedPiece::Record(record) => (line::parse(record), record.len()),
                SalvagedPiece::Torn(torn) => bad(torn.len()),
            })
            .collect(),
    }
}
