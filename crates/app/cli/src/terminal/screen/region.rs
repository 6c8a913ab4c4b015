//! The region at the end of the output that is redrawn: open text, status, edited line.
//!
//! Decision: everything above the region is ordinary output, which the terminal scrolls, searches
//! and copies as usual; only the region is overwritten. A frame is one write, framed as a
//! synchronized update (private mode 2026, ignored by terminals without it), so that no half frame
//! is visible.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr as _;

const BEGIN_UPDATE: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END_UPDATE: &str = "\u{1b}[?25h\u{1b}[?2026l";
const ERASE_ROW: &str = "\u{1b}[2K";
const ERASE_BELOW: &str = "\u{1b}[J";

/// The content of the region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::terminal) struct Frame {
    /// Its rows; none is wider than the screen.
    pub(in crate::terminal) rows: Vec<String>,
    /// Row and column of the cursor.
    pub(in crate::terminal) cursor: (usize, usize),
}

/// The region of a terminal.
#[derive(Debug)]
pub(in crate::terminal) struct LiveRegion<W> {
    out: W,
    width: usize,
    height: usize,
    /// The frame on the screen.
    shown: Frame,
    /// Rows from the beginning of the region to the cursor, as they are on the screen.
    above: usize,
}

impl<W: Write> LiveRegion<W> {
    /// Returns an empty region at the cursor, which has to be at the beginning of a row.
    pub(in crate::terminal) fn new(out: W, (width, height): (u16, u16)) -> Self {
        let mut region = Self {
            out,
            width: 0,
            height: 0,
            shown: Frame::default(),
            above: 0,
        };
        region.resize((width, height));
        region
    }

    /// Returns the columns of the screen.
    pub(in crate::terminal) fn width(&self) -> usize {
        self.width
    }

    /// Returns the rows of the screen.
    pub(in crate::terminal) fn height(&self) -> usize {
        self.height
    }

    /// Takes a new size of the screen, in columns and rows. Terminals divide rows that became too
    /// wide.
    pub(in crate::terminal) fn resize(&mut self, (width, height): (u16, u16)) {
        // A terminal that does not know its size says 0.
        self.width = if width == 0 { 80 } else { usize::from(width) };
        self.height = if height == 0 { 24 } else { usize::from(height) };
        let (row, column) = self.shown.cursor;
        let rows = self.shown.rows.iter().take(row);
        let above: usize = rows
            .map(|shown| shown_width(shown).div_ceil(self.width).max(1))
            .sum();
        self.above = above + column / self.width;
        // The next frame is shorter, so everything is erased and drawn again.
        self.shown.rows.push(String::new());
    }

    /// Prints whole lines above the region, and draws a frame below them.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(in crate::terminal) fn draw(&mut self, lines: &str, frame: Frame) -> io::Result<()> {
        let frame = self.fitting(frame);
        if lines.is_empty() && frame == self.shown {
            return Ok(());
        }
        let mut bytes = String::from(BEGIN_UPDATE);
        if self.above > 0 {
            bytes.push_str(&format!("\u{1b}[{}A", self.above));
        }
        bytes.push('\r');
        let is_erased = !lines.is_empty() || frame.rows.len() < self.shown.rows.len();
        if is_erased {
            bytes.push_str(ERASE_BELOW);
        }
        for line in lines.lines() {
            bytes.push_str(line);
            bytes.push_str("\r\n");
        }
        for (index, row) in frame.rows.iter().enumerate() {
            let end = if index == 0 { "" } else { "\r\n" };
            bytes.push_str(end);
            // A row that is on the screen already stays.
            if is_erased || self.shown.rows.get(index) != Some(row) {
                bytes.push_str(&format!("{ERASE_ROW}{row}"));
            }
        }
        bytes.push_str(&Self::to_cursor(&frame));
        bytes.push_str(END_UPDATE);
        self.above = frame.cursor.0;
        self.shown = frame;
        self.out.write_all(bytes.as_bytes())?;
        self.out.flush()
    }

    /// Prints whole lines and removes the region. The cursor is at the beginning of a row.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(in crate::terminal) fn leave(&mut self, lines: &str) -> io::Result<()> {
        self.draw(lines, Frame::default())
    }

    /// Begins a new region at the cursor, after another program has used the terminal.
    pub(in crate::terminal) fn restart(&mut self) {
        self.shown = Frame::default();
        self.above = 0;
    }

    /// Erases the screen; the region is to be drawn again.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(in crate::terminal) fn clear(&mut self) -> io::Result<()> {
        self.restart();
        self.out.write_all(b"\x1b[2J\x1b[H")?;
        self.out.flush()
    }

    /// Returns the movements from the end of a frame to its cursor.
    fn to_cursor(frame: &Frame) -> String {
        let (row, column) = frame.cursor;
        let mut bytes = String::new();
        let up = frame.rows.len().saturating_sub(row + 1);
        if up > 0 {
            bytes.push_str(&format!("\u{1b}[{up}A"));
        }
        bytes.push('\r');
        if column > 0 {
            bytes.push_str(&format!("\u{1b}[{column}C"));
        }
        bytes
    }

    /// Removes the first rows of a frame that is higher than the screen.
    fn fitting(&self, mut frame: Frame) -> Frame {
        let excess = frame
            .rows
            .len()
            .saturating_sub(self.height.saturating_sub(1).max(1));
        frame.rows.drain(..excess);
        frame.cursor.0 = frame.cursor.0.saturating_sub(excess);
        frame.cursor.1 = frame.cursor.1.min(self.width.saturating_sub(1));
        frame
    }
}

/// Returns the displayed width of a styled row in columns.
pub(in crate::terminal) fn shown_width(row: &str) -> usize {
    let mut parts = row.split('\u{1b}');
    let first = parts.next().unwrap_or_default().width();
    parts
        .map(|part| part.split_once('m').map_or(0, |(_, text)| text.width()))
        .sum::<usize>()
        + first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(length: u16) -> std::num::NonZero<u16> {
        length.try_into().unwrap()
    }

    /// Draws frames on an emulated screen and returns its text with the position of the cursor.
    struct Emulator {
        region: LiveRegion<Vec<u8>>,
        screen: vt100::Parser,
    }

    impl Emulator {
        fn new(width: u16, height: u16) -> Self {
            Self {
                region: LiveRegion::new(Vec::new(), (width, height)),
                screen: vt100::Parser::new(size(height), size(width), 100),
            }
        }

        fn draw(&mut self, lines: &str, rows: &[&str], cursor: (usize, usize)) -> String {
            let rows = rows.iter().map(|row| (*row).to_owned()).collect();
            self.region.draw(lines, Frame { rows, cursor }).unwrap();
            self.screen.process(&std::mem::take(&mut self.region.out));
            self.screen.screen().contents()
        }
    }

    #[test]
    fn lines_scroll_above_the_redrawn_region() {
        let mut emulator = Emulator::new(20, 5);
        assert_eq!(
            emulator.draw("", &["thinking", "> a"], (1, 3)),
            "thinking\n> a"
        );
        assert_eq!(
            emulator.draw("one\ntwo\n", &["> ab"], (0, 4)),
            "one\ntwo\n> ab"
        );
        assert_eq!(emulator.screen.screen().cursor_position(), (2, 4));
        let shown = emulator.draw("3\n4\n5\n6\n", &["open", "> ab"], (1, 2));
        assert_eq!(shown, "4\n5\n6\nopen\n> ab");
        assert_eq!(emulator.screen.screen().cursor_position(), (4, 2));
        emulator.region.leave("end\n").unwrap();
        emulator
            .screen
            .process(&std::mem::take(&mut emulator.region.out));
        assert_eq!(emulator.screen.screen().contents(), "4\n5\n6\nend");
    }

    #[test]
    fn same_frame_is_not_written_again() {
        let mut emulator = Emulator::new(20, 5);
        emulator.draw("", &["> a"], (0, 3));
        let frame = Frame {
            rows: vec!["> a".to_owned()],
            cursor: (0, 3),
        };
        emulator.region.draw("", frame).unwrap();
        assert_eq!(emulator.region.out, b"");
    }

    #[test]
    fn high_frame_keeps_its_end() {
        let mut emulator = Emulator::new(10, 3);
        let shown = emulator.draw("", &["1", "2", "3", "4"], (3, 1));
        assert_eq!(shown, "3\n4");
        assert_eq!(emulator.screen.screen().cursor_position(), (1, 1));
    }

    #[test]
    fn resized_region_is_drawn_again() {
        let mut emulator = Emulator::new(20, 6);
        emulator.draw("", &["status", "> abc"], (1, 5));
        emulator.region.resize((40, 6));
        emulator.screen.screen_mut().set_size(size(6), size(40));
        assert_eq!(
            emulator.draw("", &["status", "> abc"], (1, 5)),
            "status\n> abc"
        );
    }

    #[test]
    fn styles_have_no_width() {
        for (row, width) in [("a\u{1b}[1mb\u{1b}[0mc", 3), ("日本", 4), ("", 0)] {
            assert_eq!(shown_width(row), width, "{row:?}");
        }
    }
}
