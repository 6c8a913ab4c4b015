//! `read_file`, `write_file`, `edit_file`, `list_dir`.

use std::fs;

use nanobot_testkit::pdf_of_pages;
use nanobot_types::{Picture, PictureFormat};
use serde_json::{Value, json};

use crate::fixture::{Fixture, error, shown};

#[tokio::test]
async fn reading_numbers_lines_and_states_the_remainder() {
    let fixture = Fixture::new();
    fixture.write("ws/f", "a\nb\nc");
    fixture.write("ws/empty", "");
    fixture.write("ws/breaks", "a\r\nb\u{2028}c\u{b}d\n");
    let table = [
        (
            json!({"path": "f"}),
            "1| a\n2| b\n3| c\n\n(End of file — 3 lines total)".to_owned(),
        ),
        (
            json!({"path": "f", "offset": "2", "limit": 1}),
            "2| b\n\n(Showing lines 2-2 of 3. Use offset=3 to continue.)".to_owned(),
        ),
        (
            json!({"path": "f", "offset": 3}),
            "3| c\n\n(End of file — 3 lines total)".to_owned(),
        ),
        (
            json!({"path": "f", "offset": 9}),
            error("offset 9 is beyond end of file (3 lines)"),
        ),
        (json!({"path": "empty"}), "(Empty file: empty)".to_owned()),
        (
            json!({"path": "breaks"}),
            "1| a\n2| b\n3| c\n4| d\n\n(End of file — 4 lines total)".to_owned(),
        ),
        (json!({"path": "none"}), error("File not found: none")),
        (json!({"path": 5}), error("File not found: 5")),
        (json!({"path": "policy"}), error("Not a file: policy")),
    ];
    for (arguments, expected) in table {
        assert_eq!(
            fixture.call("read_file", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
    let refused = fixture
        .call("read_file", json!({"path": "f", "offset": 0}))
        .await;
    assert!(
        refused.starts_with("Error: Invalid parameters for tool 'read_file': "),
        "{refused}"
    );
}

#[tokio::test]
async fn reading_a_picture_describes_it() {
    let fixture = Fixture::new();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02";
    fs::write(fixture.path("ws/p"), png).unwrap();
    fs::write(fixture.path("ws/short"), b"\xff\xd8\xff").unwrap();
    for (path, expected) in [
        ("p", "(p is a PNG picture of 640 × 480 pixels, 26 bytes.)"),
        ("short", "(short is a JPEG picture, 3 bytes.)"),
    ] {
        let output = fixture.call("read_file", json!({"path": path})).await;
        assert_eq!(output, expected);
    }
}

#[tokio::test]
async fn pictures_within_the_limit_are_shown() {
    let fixture = Fixture::new();
    let start = b"GIF89a\x80\x02\xe0\x01";
    for (size, is_shown) in [
        (start.len(), true),
        (Picture::MAX_BYTES, true),
        (Picture::MAX_BYTES + 1, false),
    ] {
        let mut bytes = start.to_vec();
        bytes.resize(size, 0);
        fs::write(fixture.path("ws/p"), &bytes).unwrap();
        let result = fixture.run("read_file", json!({"path": "p"})).await;
        assert!(result.success, "{}", result.output);
        let shown = result.pictures.first();
        assert_eq!(
            shown.map(|picture| picture.format),
            is_shown.then_some(PictureFormat::Gif)
        );
        assert!(shown.is_none_or(|picture| picture.bytes == bytes));
        assert_eq!(result.output.contains("too large to show"), !is_shown);
    }
    fixture.write("ws/text.png", "no picture");
    let result = fixture.run("read_file", json!({"path": "text.png"})).await;
    assert_eq!(
        (
            result.pictures.len(),
            result.output.starts_with("1| no picture")
        ),
        (0, true)
    );
}

#[tokio::test]
async fn reading_a_pdf_pages_through_its_text() {
    let fixture = Fixture::new();
    fs::write(
        fixture.path("ws/tea.pdf"),
        pdf_of_pages(&["BT /F1 12 Tf 20 100 Td (Boil the water) Tj ET"]),
    )
    .unwrap();
    let heading = "(Text of a PDF document; number of pages: 1.)\n";
    for (arguments, lines) in [
        (
            json!({"path": "tea.pdf"}),
            "1| --- Page 1 of 1 ---\n2| Boil the water\n\n(End of file — 2 lines total)",
        ),
        (
            json!({"path": "tea.pdf", "limit": 1}),
            "1| --- Page 1 of 1 ---\n\n(Showing lines 1-1 of 2. Use offset=2 to continue.)",
        ),
    ] {
        let output = fixture.call("read_file", arguments).await;
        assert_eq!(output, format!("{heading}{lines}"));
    }
    fixture.write("ws/bad.pdf", "%PDF-1.4 and nothing else");
    let output = fixture.call("read_file", json!({"path": "bad.pdf"})).await;
    assert!(
        output.starts_with("Error: cannot read bad.pdf: the PDF is damaged"),
        "{output}"
    );
}

#[tokio::test]
async fn pages_of_a_pdf_are_shown_as_pictures() {
    let fixture = Fixture::new();
    let text = "BT /F1 12 Tf 20 100 Td (Words) Tj ET";
    let filled = "50 50 100 100 re f";
    fs::write(
        fixture.path("ws/scan.pdf"),
        pdf_of_pages(&[filled, text, filled, filled, filled, filled]),
    )
    .unwrap();
    let blank = "Pages without text: 1, 3-6.";
    for (arguments, pictures, notes, lines) in [
        (json!({}), 4, "Pages shown as pictures: 1, 3-5.", 16),
        (json!({"offset": 2}), 0, "", 15),
        (json!({"pdf_page": 2}), 1, "Pages shown as pictures: 2.", 2),
        (json!({"pdf_page": 6}), 1, "Pages shown as pictures: 6.", 1),
    ] {
        let mut arguments = arguments;
        arguments["path"] = json!("scan.pdf");
        let result = fixture.run("read_file", arguments.clone()).await;
        assert_eq!(result.pictures.len(), pictures, "{arguments}: {result:?}");
        assert!(
            result
                .pictures
                .iter()
                .all(|picture| picture.format == PictureFormat::Png)
        );
        let notes = [blank, notes].join(" ");
        assert!(
            result.output.starts_with(&format!(
                "(Text of a PDF document; number of pages: 6. {}",
                notes.trim_end()
            )),
            "{}",
            result.output
        );
        let shown = result.output.lines().filter(|line| line.contains("| "));
        assert_eq!(shown.count(), lines, "{}", result.output);
    }
    for (arguments, expected) in [
        (
            json!({"path": "scan.pdf", "pdf_page": 7}),
            "scan.pdf has pages 1 to 6",
        ),
        (
            json!({"path": "scan.pdf", "pdf_page": 0}),
            "scan.pdf has pages 1 to 6",
        ),
        (
            json!({"path": "note", "pdf_page": 1}),
            "note is no PDF document: use offset and limit",
        ),
    ] {
        fixture.write("ws/note", "text");
        let output = fixture.call("read_file", arguments).await;
        assert!(output.contains(expected), "{output}");
    }
}

#[tokio::test]
async fn reading_is_bounded_and_always_makes_progress() {
    let fixture = Fixture::new();
    fixture.write("ws/many", "0123456789\n".repeat(20_000));
    let text = fixture
        .call("read_file", json!({"path": "many", "limit": 20_000}))
        .await;
    assert!(text.chars().count() < 128_200);
    let last = text
        .lines()
        .rev()
        .nth(2)
        .unwrap()
        .split('|')
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap();
    let next = last + 1;
    assert!(text.ends_with(&format!(
        "(Showing lines 1-{last} of 20000. Use offset={next} to continue.)"
    )));

    fixture.write("ws/long", format!("{}\nnext\n", "咖".repeat(3_500_000)));
    let text = fixture.call("read_file", json!({"path": "long"})).await;
    assert!(text.starts_with("1| 咖咖") && text.chars().count() < 128_300);
    assert!(text.ends_with(
        "(Line 1 has 3500000 characters; only the first 128000 are shown.)\n\n\
         (Showing lines 1-1 of 2. Use offset=2 to continue.)"
    ));
}

#[tokio::test]
async fn invalid_utf8_is_an_error_with_the_byte_offset() {
    let fixture = Fixture::new();
    let mut bytes = "é".repeat(50_000).into_bytes();
    bytes.push(0xff);
    fixture.write("ws/binary", &bytes);
    fixture.write("ws/cut", b"ab\xc3");
    for (name, offset) in [("binary", 100_000), ("cut", 2)] {
        let expected = error(format!(
            "{name} is not UTF-8 text (invalid byte at offset {offset})"
        ));
        assert_eq!(
            fixture.call("read_file", json!({"path": name})).await,
            expected
        );
        let edit = json!({"path": name, "old_text": "a", "new_text": "b"});
        assert_eq!(fixture.call("edit_file", edit).await, expected);
    }
}

#[tokio::test]
async fn writing_replaces_the_file_and_reports_its_size() {
    let fixture = Fixture::new();
    let place = shown(
        &fs::canonicalize(fixture.path("ws"))
            .unwrap()
            .join("new/sub/f"),
    );
    for (content, expected) in [
        ("é!", "2 characters (3 bytes)"),
        ("x", "1 characters (1 bytes)"),
    ] {
        let answer = fixture
            .call(
                "write_file",
                json!({"path": "new/sub/f", "content": content}),
            )
            .await;
        assert_eq!(answer, format!("Successfully wrote {expected} to {place}"));
        assert_eq!(fixture.read("ws/new/sub/f"), content);
    }
    let onto_folder = fixture
        .call("write_file", json!({"path": "policy/..", "content": ""}))
        .await;
    assert!(onto_folder.starts_with("Error: "), "{onto_folder}");
}

#[tokio::test]
async fn edit_replaces_exact_and_loose_matches() {
    let table: [(&str, Value, &str); 8] = [
        (
            "hello world",
            json!({"old_text": "world", "new_text": "there"}),
            "hello there",
        ),
        (
            "a\r\nb\r\n",
            json!({"old_text": "a\nb", "new_text": "x\ny"}),
            "x\r\ny\r\n",
        ),
        (
            "  a\n  b\nc\n",
            json!({"old_text": "a\nb", "new_text": "x"}),
            "x\nc\n",
        ),
        (
            "x x x",
            json!({"old_text": "x", "new_text": "y", "replace_all": true}),
            "y y y",
        ),
        (
            " x\nx \n x\n",
            json!({"old_text": "x  ", "new_text": "y", "replace_all": true}),
            "y\nx \ny\n",
        ),
        ("ab", json!({"old_text": "b", "new_text": ""}), "a"),
        ("", json!({"old_text": "", "new_text": "start"}), "start"),
        (
            "咖啡\n",
            json!({"old_text": "啡", "new_text": "☕"}),
            "咖☕\n",
        ),
    ];
    for (before, mut arguments, after) in table {
        let fixture = Fixture::new();
        fixture.write("ws/f", before);
        arguments["path"] = json!("f");
        let answer = fixture.call("edit_file", arguments.clone()).await;
        assert!(
            answer.starts_with("Successfully edited /"),
            "{arguments}: {answer}"
        );
        assert_eq!(fixture.read("ws/f"), after, "{arguments}");
    }
}

#[tokio::test]
async fn ambiguous_edit_changes_nothing() {
    let fixture = Fixture::new();
    fixture.write("ws/f", "a\nb\na\n");
    let edit = |old: &str| json!({"path": "f", "old_text": old, "new_text": "new"});
    let ambiguous = fixture.run("edit_file", edit("a")).await;
    assert!(!ambiguous.success);
    assert!(
        ambiguous
            .output
            .starts_with("Warning: old_text appears 2 times."),
        "{}",
        ambiguous.output
    );
    let absent = fixture.call("edit_file", edit("nowhere")).await;
    assert!(
        absent.starts_with("Error: old_text not found in f: no similar text."),
        "{absent}"
    );
    let near = fixture.call("edit_file", edit("a\nb\nX")).await;
    let diff = "Best match (67% similar) at line 1:\n--- old_text (provided)\n+++ f (actual, line 1)\n\
        @@ -1,3 +1,3 @@\n a\n\n b\n\n-X\n+a\n";
    assert_eq!(near, error(format!("old_text not found in f.\n{diff}")));
    let empty = fixture.call("edit_file", edit("")).await;
    assert!(
        empty.starts_with("Error: old_text is empty, but f is not."),
        "{empty}"
    );
    assert_eq!(fixture.read("ws/f"), "a\nb\na\n");
    let missing = json!({"path": "none", "old_text": "a", "new_text": "b"});
    assert_eq!(
        fixture.call("edit_file", missing).await,
        error("File not found: none")
    );
    let created = json!({"path": "fresh", "old_text": "", "new_text": "b"});
    fixture.call("edit_file", created).await;
    assert_eq!(fixture.read("ws/fresh"), "b");
}

#[tokio::test]
async fn listing_is_sorted_and_skips_build_folders() {
    let fixture = Fixture::new();
    // The folder above has the name of an ignored one, which must not hide the entries below it.
    for name in [
        "build/p/b.txt",
        "build/p/a/z",
        "build/p/a.txt",
        "build/p/node_modules/x",
        "build/p/a/.git/c",
    ] {
        fixture.write(&format!("ws/{name}"), "");
    }
    fs::create_dir(fixture.path("ws/void")).unwrap();
    let table = [
        (
            json!({"path": "build/p"}),
            "📁 a\n📄 a.txt\n📄 b.txt".to_owned(),
        ),
        (
            json!({"path": "build/p", "recursive": true}),
            "a/\na/z\na.txt\nb.txt".to_owned(),
        ),
        (
            json!({"path": "build/p", "recursive": "true", "max_entries": 2}),
            "a/\na/z\n\n(truncated, showing first 2 of 4 entries)".to_owned(),
        ),
        (
            json!({"path": "void"}),
            "Directory void is empty".to_owned(),
        ),
        (json!({"path": "none"}), error("Directory not found: none")),
        (
            json!({"path": "AGENTS.md"}),
            error("Not a directory: AGENTS.md"),
        ),
    ];
    for (arguments, expected) in table {
        assert_eq!(
            fixture.call("list_dir", arguments.clone()).await,
            expected,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn every_tool_checks_the_path_policy() {
    let fixture = Fixture::new();
    fixture.write("extra/doc", "a");
    let outside = shown(&fixture.path("outside/canary.txt"));
    let expected = error(format!(
        "Path {outside} is outside allowed directory {}",
        shown(&fixture.path("ws"))
    ));
    for (tool, arguments) in [
        ("read_file", json!({"path": outside})),
        ("write_file", json!({"path": outside, "content": "x"})),
        (
            "edit_file",
            json!({"path": outside, "old_text": "OUT", "new_text": "x"}),
        ),
        ("list_dir", json!({"path": outside})),
    ] {
        assert_eq!(fixture.call(tool, arguments).await, expected, "{tool}");
    }
    assert_eq!(fixture.read("outside/canary.txt"), "OUTSIDE-CANARY-55aa");

    let extra = shown(&fixture.path("extra/doc"));
    assert!(
        fixture
            .call("read_file", json!({"path": extra}))
            .await
            .starts_with("1| a")
    );
    let edit = json!({"path": extra, "old_text": "a", "new_text": "b"});
    assert!(
        fixture
            .call("edit_file", edit)
            .await
            .starts_with("Error: Path ")
    );
    assert_eq!(fixture.read("extra/doc"), "a");

    let secret = fixture
        .call("read_file", json!({"path": "~/.ssh/id_ed25519"}))
        .await;
    assert!(
        secret.starts_with("Error: ") && !secret.contains("CANARY"),
        "{secret}"
    );
    let tree = Fixture::open()
        .call("list_dir", json!({"path": "..", "recursive": true}))
        .await;
    assert!(
        tree.contains("home/.ssh/") && !tree.contains("id_ed25519"),
        "{tree}"
    );
}
