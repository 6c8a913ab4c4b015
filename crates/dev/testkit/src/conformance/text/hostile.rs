//! Texts that take minutes or all memory if any step is not linear.

use anyhow::{Context as _, ensure};
use nanobot_channel::TextStyle;
use nanobot_text::render;

use super::fits;

/// Size of a text, in bytes.
const SIZE: usize = 50_000;

pub(super) fn run(
    style: TextStyle,
    visible: &impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let groups = [
        ("a megabyte", megabytes()),
        ("one line without end", lines()),
        ("invisible characters", invisible()),
        ("deep nesting", nested()),
        ("lines and blocks without end", blocks()),
    ];
    for (name, texts) in groups {
        for markdown in texts {
            for part in render(&markdown, style) {
                ensure!(!part.text.trim().is_empty(), "{name}: a blank part");
                fits(style, &part, visible).context(name)?;
            }
        }
    }
    Ok(())
}

/// Repeats `unit` to [`SIZE`] bytes.
fn fill(unit: &str) -> String {
    unit.repeat(SIZE / unit.len())
}

fn megabytes() -> Vec<String> {
    vec![
        "a".repeat(1_000_000),
        "Some **bold** words & `code`.\n\n".repeat(30_000),
    ]
}

fn lines() -> Vec<String> {
    let units = [
        "a",
        "word ",
        "中文",
        "👩‍👩‍👧‍👦",
        "*",
        "*a ",
        "`",
        "_a_ ",
        "<",
        "&",
        "[",
        "\\",
        "https://e.org/a)",
        "://",
    ];
    units.map(fill).to_vec()
}

fn invisible() -> Vec<String> {
    vec![
        format!("e{}", fill("\u{301}")),
        fill("\u{200b}\u{200d}\u{2060}"),
        fill("\u{202e}עברית \u{2066}abc\u{2069} "),
        fill("\0\r\n"),
    ]
}

fn nested() -> Vec<String> {
    let deep = |unit: &str| unit.repeat(10_000);
    vec![
        format!("{}x\ny\nz", deep("> ")),
        format!("{}x\n{}", deep("- "), fill("lazy line\n")),
        format!("{}x{}", deep("**_"), deep("_**")),
        format!("{}x{}", deep("["), deep("](https://e.org)")),
    ]
}

fn blocks() -> Vec<String> {
    let units = [
        "a\n",
        "a\n\n",
        "# h\n",
        "- i\n",
        "> q\n\n",
        "```\nc\n```\n",
        "| a | b |\n|---|---|\n| c | d |\n\n",
        "**b** `c` [l](https://e.org)\n",
    ];
    let wide = "w".repeat(SIZE / 2);
    let mut texts = units.map(fill).to_vec();
    texts.push(format!(
        "| {wide} |\n|---|\n{}",
        "| c |\n".repeat(SIZE / 12)
    ));
    texts.push(format!("```\n{}\n```", fill("code line\n")));
    texts.push(format!("> {}", fill("**quoted\nline** ")));
    texts
}
