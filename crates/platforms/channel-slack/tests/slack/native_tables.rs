//! Native tables, and the text in their place.

use nanobot_channel::{Block, Format, Markup as _, Measure, Table, TextStyle};
use nanobot_channel_slack::Mrkdwn;
use nanobot_testkit::markup::{letters, markdown};
use nanobot_text::{Links, RenderedPart, parse, render};
use proptest::prelude::*;

use crate::markup::visible;

fn parts(markdown: &str, limit: usize) -> Vec<RenderedPart> {
    render(
        markdown,
        TextStyle {
            format: Format::Markup(&Mrkdwn),
            measure: Measure::CodePoints,
            limit,
        },
    )
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn table(rows: &[&[&str]], right: &[bool]) -> Block {
    let rows = rows
        .iter()
        .map(|row| row.iter().map(|cell| (*cell).to_owned()).collect())
        .collect();
    Block::Table(Table {
        rows,
        right: right.to_vec(),
    })
}

fn blocks(markdown: &str, limit: usize) -> Vec<Vec<Block>> {
    parts(markdown, limit)
        .into_iter()
        .map(|part| part.blocks)
        .collect()
}

/// A table of so many rows and columns, the head included.
fn square(rows: usize, columns: usize, cell: &str) -> String {
    let row = |cell: &str| format!("|{}\n", format!("{cell}|").repeat(columns));
    row(cell) + &row("-") + &row(cell).repeat(rows - 1)
}

#[test]
fn table_is_between_the_surrounding_texts() {
    let source = "*Look*:\n\n| a | **b** & c |\n|---|--:|\n| [x](https://e.org) | `1` |\n| <@U1> | |\n\nSo & so.";
    let rows = table(
        &[&["a", "b & c"], &["x (https://e.org)", "1"], &["<@U1>", ""]],
        &[false, true],
    );
    let [part] = parts(source, 4000).try_into().unwrap();
    assert_eq!(part.blocks, [text("_Look_:"), rows, text("So &amp; so.")]);
    let aligned = "```\na                  b &amp; c\n─────────────────  ─────\nx (https://e.org)      1\n&lt;@U1&gt;\n```";
    assert_eq!(part.text, format!("_Look_:\n\n{aligned}\n\nSo &amp; so."));
    let alone = table(&[&["h"], &["c"]], &[false]);
    assert_eq!(blocks("|h|\n|-|\n|c|", 4000), [vec![alone.clone()]]);
    assert_eq!(
        blocks("> |h|\n> |-|\n> |c|\n\n- x\n\n  |h|\n  |-|\n  |c|", 4000),
        [vec![alone.clone()], vec![text("• x"), alone]]
    );
    let wide = "w".repeat(90);
    let wide_table = table(&[&["h", "i"], &[&wide, ""]], &[false, false]);
    assert_eq!(
        blocks(&format!("|h|i|\n|-|-|\n|{wide}||"), 4000),
        [vec![wide_table]]
    );
    assert_eq!(blocks("no table", 4000), [vec![]]);
}

#[test]
fn each_table_gets_its_own_message_up_to_a_limit() {
    let one = |name: &str| format!("## {name}\n\n|{name}|\n|-|\n|x|\n\n");
    let shown = |name: &str| table(&[&[name], &["x"]], &[false]);
    let source = format!("Intro.\n\n{}{}Outro.", one("a"), one("b"));
    let expected = [
        vec![text("Intro.\n\n*a*"), shown("a")],
        vec![text("*b*"), shown("b"), text("Outro.")],
    ];
    assert_eq!(blocks(&source, 4000), expected);
    let many: String = (0..12).map(|number| one(&number.to_string())).collect();
    let parts = parts(&many, 39_000);
    let tables = parts
        .iter()
        .flat_map(|part| &part.blocks)
        .filter(|block| matches!(block, Block::Table(_)))
        .count();
    assert_eq!((parts.len(), tables), (8, 8));
    assert!(
        parts[7].text.contains("*11*"),
        "the rest is text: {}",
        parts[7].text
    );
}

#[test]
fn oversized_table_is_sent_as_text() {
    let has_table = |source: &str, limit| {
        let parts = parts(source, limit);
        parts
            .iter()
            .flat_map(|part| &part.blocks)
            .any(|block| matches!(block, Block::Table(_)))
    };
    let table = [
        (square(100, 20, "x"), 39_000, true),
        (square(101, 2, "x"), 39_000, false),
        (square(2, 21, "x"), 39_000, false),
        (square(100, 2, &"x".repeat(50)), 39_000, true),
        (square(100, 2, &"x".repeat(51)), 39_000, false),
        (square(4, 4, "word"), 40, false),
        ("| |\n|-|\n| |".to_owned(), 39_000, false),
    ];
    for (source, limit, expected) in table {
        assert_eq!(
            has_table(&source, limit),
            expected,
            "{} characters, {limit}",
            source.len()
        );
    }
}

#[test]
fn long_text_is_split_before_the_table() {
    let words = |count: usize| "word ".repeat(count).trim_end().to_owned();
    let source = |count: usize| format!("{}\n\n|h|\n|-|\n|c|\n\nend", words(count));
    let sizes = |count: usize| -> Vec<Vec<usize>> {
        let size = |block: &Block| match block {
            Block::Text(text) => text.len(),
            Block::Table(_) => 0,
        };
        blocks(&source(count), 39_000)
            .iter()
            .map(|blocks| blocks.iter().map(size).collect())
            .collect()
    };
    assert_eq!(sizes(1000), [[2999, 1999, 0, 3]]);
    assert_eq!(sizes(2100), [vec![], vec![0], vec![]]);
}

proptest! {
    #[test]
    fn blocks_keep_all_text_within_limits(markdown in markdown(60), limit in 100_usize..600) {
        let links = Links { schemes: Mrkdwn.link_schemes(), longest: limit / 4 };
        let document = parse(&markdown, links);
        let (mut said, mut at) = (String::new(), 0);
        for (range, table) in &document.tables {
            said.push_str(document.text.get(at..range.start).unwrap());
            table.rows.iter().flatten().for_each(|cell| said.push_str(cell));
            at = range.end;
        }
        said.push_str(document.text.get(at..).unwrap());
        let mut shown = String::new();
        for part in parts(&markdown, limit) {
            prop_assert!(part.text.chars().count() <= limit);
            prop_assert!(part.blocks.iter().filter(|block| matches!(block, Block::Table(_))).count() <= 1);
            if part.blocks.is_empty() {
                shown.push_str(&visible(&part.text).unwrap());
            }
            for block in &part.blocks {
                match block {
                    Block::Text(text) => {
                        prop_assert!(!text.trim().is_empty() && text.chars().count() <= limit.min(3000));
                        shown.push_str(&visible(text).unwrap());
                    }
                    Block::Table(table) => {
                        prop_assert!(table.rows.iter().all(|row| row.len() == table.right.len()));
                        table.rows.iter().flatten().for_each(|cell| shown.push_str(cell));
                    }
                }
            }
        }
        let (said, shown) = (letters(&said), letters(&shown));
        for (letter, count) in said {
            prop_assert!(shown.get(&letter).copied().unwrap_or_default() >= count, "{letter} of {markdown:?}");
        }
    }
}
