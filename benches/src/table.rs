//! The table printed by the driver.

use std::borrow::Cow;
use std::fmt;

/// A measured value, the value of the floor program, and the target.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRow {
    what: Cow<'static, str>,
    value: String,
    floor: Option<String>,
    ratio: Option<f64>,
    target: &'static str,
    met: bool,
}

impl ReportRow {
    /// Creates a row whose value may be at most `most` times its floor.
    pub(crate) fn ratio(
        what: impl Into<Cow<'static, str>>,
        unit: Unit,
        value: f64,
        floor: f64,
        target: &'static str,
        most: f64,
    ) -> Self {
        let ratio = value / floor;
        let (value, floor) = (unit.show(value), Some(unit.show(floor)));
        Self {
            what: what.into(),
            value,
            floor,
            ratio: Some(ratio),
            target,
            met: ratio <= most,
        }
    }

    /// Creates a row whose value may be at most `most`.
    pub(crate) fn limit(
        what: impl Into<Cow<'static, str>>,
        unit: Unit,
        value: f64,
        target: &'static str,
        most: f64,
    ) -> Self {
        Self {
            what: what.into(),
            value: unit.show(value),
            floor: None,
            ratio: None,
            target,
            met: value <= most,
        }
    }

    /// Adds the value of the floor program for comparison.
    pub(crate) fn beside(self, unit: Unit, value: f64, floor: f64) -> Self {
        Self {
            floor: Some(unit.show(floor)),
            ratio: Some(value / floor),
            ..self
        }
    }
}

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Microseconds,
    Kibibytes,
    Bytes,
    Count,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Microseconds => format!("{:.2} ms", value / 1_000.0),
            // Differences between two processes are small.
            Self::Kibibytes if value < 1_024.0 => format!("{value:.0} KB"),
            Self::Kibibytes => format!("{:.1} MB", value / 1_024.0),
            Self::Bytes => format!("{value:.0} B"),
            Self::Count => format!("{value:.0}"),
        }
    }
}

/// All rows, shown as a Markdown table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportTable(Vec<ReportRow>);

impl ReportTable {
    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = ReportRow>) {
        self.0.extend(rows);
    }
}

impl fmt::Display for ReportTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | value | floor | ratio | target | |")?;
        writeln!(f, "|---|---:|---:|---:|---:|---|")?;
        for row in &self.0 {
            let floor = row.floor.as_deref().unwrap_or("–");
            let ratio = row
                .ratio
                .map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
            let verdict = if row.met { "ok" } else { "**missed**" };
            writeln!(
                f,
                "| {} | {} | {floor} | {ratio} | {} | {verdict} |",
                row.what, row.value, row.target
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_mark_missed_targets() {
        let mut table = ReportTable::default();
        table.extend([
            ReportRow::ratio("a", Unit::Microseconds, 1_500.0, 1_000.0, "≤ 1.5×", 1.5),
            ReportRow::limit("b", Unit::Kibibytes, 5_120.0, "≤ 4 MB", 4_096.0).beside(
                Unit::Kibibytes,
                5_120.0,
                2_048.0,
            ),
            ReportRow::limit("c", Unit::Bytes, 10.0, "≤ 8 KB", 8_192.0),
            ReportRow::limit("d", Unit::Kibibytes, 300.4, "≤ 0.5 MB", 512.0),
            ReportRow::limit(String::from("e"), Unit::Count, 7.0, "≤ 6", 6.0),
        ]);
        let expected = "\
| what | value | floor | ratio | target | |
|---|---:|---:|---:|---:|---|
| a | 1.50 ms | 1.00 ms | 1.50 | ≤ 1.5× | ok |
| b | 5.0 MB | 2.0 MB | 2.50 | ≤ 4 MB | **missed** |
| c | 10 B | – | – | ≤ 8 KB | ok |
| d | 300 KB | – | – | ≤ 0.5 MB | ok |
| e | 7 | – | – | ≤ 6 | **missed** |
";
        assert_eq!(table.to_string(), expected);
    }
}
