//! The prompt as a person sees it: an emulated screen of 80 and of 40 columns.

use std::os::unix::fs::PermissionsExt as _;

use nanobot_testkit::{Gate, ModelServer, Reply};
use serde_json::json;

use crate::prompt::Screen;
use crate::support::Home;

pub(crate) const SIZES: [(u16, u16); 2] = [(60, 80), (60, 40)];
pub(crate) const CONTROL_C: &str = "\u{3}";
pub(crate) const CONTROL_D: &str = "\u{4}";
pub(crate) const CONTROL_G: &str = "\u{7}";
const CONTROL_O: &str = "\u{f}";
const CONTROL_R: &str = "\u{12}";
const ESCAPE: &str = "\u{1b}";

pub(crate) fn has(rows: &[String], part: &str) -> bool {
    rows.iter().any(|row| row.contains(part))
}

/// Returns the number of rows with a text.
pub(crate) fn count(rows: &[String], part: &str) -> usize {
    rows.iter().filter(|row| row.contains(part)).count()
}

/// Leaves a prompt.
pub(crate) fn leave(mut screen: Screen) {
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
}

/// Waits until the prompt is empty and nothing runs.
pub(crate) fn wait_for_prompt(screen: &mut Screen) -> Vec<String> {
    screen.wait_until(|rows| {
        rows.last().is_some_and(|row| row == "You:") && !has(rows, "· Ctrl-C stops")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn words_and_status_are_shown_while_a_turn_runs() {
    for size in SIZES {
        let gate = Gate::new();
        let held = gate.clone();
        let model = ModelServer::answering(move |_| {
            Reply::deltas([
                "Ein **fettes",
                " Wort** 你好世界 👩‍👩‍👧.\n\n",
                "| a | b |\n|---|--:|\n| 你好 | 7 |\n",
            ])
            .holding(&held)
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("sag etwas 你好 👩‍👩‍👧\r");
        // The first words, the status and the empty prompt are visible at once.
        let rows = screen.wait_until(|rows| has(rows, "Ein ") && has(rows, "writing"));
        assert!(has(&rows, "· Ctrl-C stops"), "{rows:?}");
        assert_eq!(rows.last().map(String::as_str), Some("You:"), "{rows:?}");
        assert!(has(&rows, "You: sag etwas 你好 👩‍👩‍👧"), "{rows:?}");
        gate.open();
        screen.wait_until(|rows| has(rows, "你好 │ 7"));
        let rows = wait_for_prompt(&mut screen);
        assert_eq!(
            rows.iter().filter(|row| row.contains("Ein fettes")).count(),
            1,
            "{rows:?}"
        );
        screen.type_in(CONTROL_D);
        assert_eq!(screen.end(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_shows_words_and_status() {
    for size in SIZES {
        let gate = Gate::new();
        let held = gate.clone();
        let model = ModelServer::answering(move |_| {
            Reply::deltas(["Ein **fettes", " Wort** 你好 👩‍👩‍👧.\n\n- eins\n- zwei\n"]).holding(&held)
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let arguments = ["agent", "-m", "sag etwas"];
        let mut screen = Screen::open_with(&home, &arguments, size, &[]);
        let rows = screen.wait_until(|rows| has(rows, "Ein ") && has(rows, "writing"));
        assert!(has(&rows, "· Ctrl-C stops"), "{rows:?}");
        gate.open();
        assert_eq!(screen.end(), Some(0));
        let rows = screen.wait_until(|rows| has(rows, "zwei") && !has(rows, "Ctrl-C"));
        let count = |part: &str| rows.iter().filter(|row| row.contains(part)).count();
        assert_eq!((count("Ein fettes"), count("eins")), (1, 1), "{rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_message_keeps_its_words() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = ModelServer::answering(move |_| Reply::deltas(["Half a", " line"]).holding(&held));
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    let mut screen = Screen::open_with(&home, &["agent", "-m", "tell"], (24, 80), &[]);
    screen.wait_until(|rows| has(rows, "Half a") && has(rows, "writing"));
    nix::sys::signal::kill(screen.pid(), nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(screen.end(), Some(130));
    let rows = screen.wait_until(|rows| has(rows, "Half a") && !has(rows, "writing"));
    assert!(!has(&rows, "Ctrl-C stops"), "{rows:?}");
    gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn named_files_are_completed_and_attached() {
    for size in SIZES {
        let model = ModelServer::answering(|_| Reply::text("Read."))
            .await
            .unwrap();
        let home = Home::with_model(&model.base_url());
        std::fs::write(home.path().with_file_name("旅行 plan.md"), "fly on Monday").unwrap();
        std::fs::write(home.path().with_file_name(".env"), "TOKEN=secret-value").unwrap();
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("read @旅\t");
        screen.wait_until(|rows| has(rows, "@\"旅行 plan.md\""));
        screen.type_in("\r");
        screen.wait_until(|rows| has(rows, "Attached "));
        screen.wait_until(|rows| has(rows, "Read."));
        wait_for_prompt(&mut screen);
        let asked = model.requests()[0].last_user_text();
        assert!(
            asked.contains("[file: ") && asked.contains("/media/cli/"),
            "{asked}"
        );
        // A pasted text may name a secret; it stays where it is.
        screen.type_in("\u{1b}[200~look at @.env\u{1b}[201~\r");
        screen.wait_until(|rows| has(rows, "hidden"));
        screen.wait_until(|rows| rows.iter().filter(|row| row.contains("Read.")).count() == 2);
        wait_for_prompt(&mut screen);
        assert!(!model.requests()[1].last_user_text().contains("[file: "));
        assert_eq!(home.names("media/cli").len(), 1);
        screen.type_in(CONTROL_D);
        assert_eq!(screen.end(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_and_skills_are_completed() {
    let model = ModelServer::answering(|_| Reply::text("Yes."))
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    home.write(
        "workspace/skills/gardening/SKILL.md",
        "---\nname: gardening\ndescription: Plants.\n---\nWater.\n",
    );
    let mut screen = Screen::open_with(&home, &["agent", "-s", "cli:garden"], (24, 80), &[]);
    wait_for_prompt(&mut screen);
    screen.type_in("hello\r");
    screen.wait_until(|rows| has(rows, "Yes."));
    wait_for_prompt(&mut screen);
    screen.type_in("/sessions gar\t");
    screen.wait_for_row("You: /sessions garden");
    screen.type_in(CONTROL_C);
    screen.wait_for_row("You:");
    screen.type_in("use $gard\t");
    screen.wait_for_row("You: use gardening");
    screen.type_in(CONTROL_C);
    screen.wait_for_row("You:");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_show_outcome_and_change() {
    for size in SIZES {
        let model = ModelServer::answering(|request| match request.messages().last() {
            Some(last) if last["role"] == "tool" => Reply::text("Done."),
            _ => Reply::call(
                "write_file",
                &json!({"path": "列表.md", "content": "# 购物\n- 牛奶\n"}),
            ),
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("write\r");
        let rows = screen.wait_until(|rows| has(rows, "Done."));
        assert!(has(&rows, "✓ write_file("), "{rows:?}");
        assert!(has(&rows, "+- 牛奶"), "{rows:?}");
        screen.type_in(CONTROL_O);
        screen.wait_until(|rows| rows.iter().filter(|row| row.contains("+- 牛奶")).count() == 2);
        screen.type_in("/diff\r");
        screen.wait_until(|rows| rows.iter().filter(|row| row.contains("+- 牛奶")).count() == 3);
        screen.type_in(CONTROL_D);
        assert_eq!(screen.end(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_results_and_changes_are_wrapped() {
    let line = "牛奶和面包 and some more words to wrap ".repeat(4);
    for size in SIZES {
        let content = format!("{line}\nend\n");
        let model = ModelServer::answering(move |request| {
            match request
                .messages()
                .iter()
                .filter(|message| message["role"] == "tool")
                .count()
            {
                0 => Reply::call(
                    "write_file",
                    &json!({"path": "列表.md", "content": content}),
                ),
                1 => Reply::call(
                    "exec",
                    &json!({"command": "seq -f '行 %06g of many' 1 2000"}),
                ),
                _ => Reply::text("Done."),
            }
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("write\r");
        screen.wait_until(|rows| has(rows, "Done."));
        wait_for_prompt(&mut screen);
        screen.type_in("/last\r");
        let rows = screen.wait_until(|rows| has(rows, "more bytes; whole in"));
        assert!(
            rows.join("")
                .replace(' ', "")
                .contains("tool-results/exec-"),
            "{rows:?}"
        );
        wait_for_prompt(&mut screen);
        screen.type_in("/diff\r");
        let rows = screen.wait_until(|rows| rows.iter().any(|row| row == "+end"));
        let changed: Vec<&String> = rows.iter().filter(|row| row.starts_with('+')).collect();
        let columns = usize::from(size.1);
        let expected = (content_width(&line)).div_ceil(columns - 1) + 1;
        assert!(
            (expected..=expected + 1).contains(&changed.len()),
            "{expected}: {changed:?}"
        );
        screen.type_in(CONTROL_D);
        assert_eq!(screen.end(), Some(0));
    }
}

/// Returns the number of columns of a text without emoji.
fn content_width(text: &str) -> usize {
    text.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum()
}

#[test]
fn keys_edit_clear_and_search() {
    for size in SIZES {
        let home = Home::new();
        let mut screen = Screen::open_with(&home, &["agent", "--demo"], size, &[]);
        screen.wait_for_row("You:");
        // Alt-Enter, Ctrl-J and a backslash begin new lines.
        screen.type_in("erste 行\u{1b}\rzweite\nthird\\\rvierte");
        screen.wait_for_row("     vierte");
        screen.type_in(CONTROL_C);
        screen.wait_until(|rows| has(rows, "Ctrl-C again leaves"));
        screen.type_in("/help\r");
        screen.wait_until(|rows| has(rows, "Keys"));
        screen.type_in(&format!("{CONTROL_R}ZWEI"));
        let rows = screen.wait_for_row("search history: ZWEI");
        assert!(has(&rows, "You: erste 行"), "{rows:?}");
        screen.type_in(ESCAPE);
        screen.wait_for_row("You:");
        screen.type_in("/sto\t");
        screen.wait_for_row("You: /stop");
        screen.type_in(CONTROL_C);
        screen.wait_for_row("You:");
        screen.type_in("/help ret\t");
        screen.wait_for_row("You: /help retry");
        screen.type_in(CONTROL_C);
        screen.wait_until(|rows| has(rows, "Ctrl-C again leaves"));
        screen.type_in(CONTROL_C);
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
    }
}

#[test]
fn typed_text_breaks_between_words() {
    const TEXT: &str =
        "erste zweite 你好世界 dritte 👩‍👩‍👧 vierte fünfte sechste siebente achtundzwanzigste";
    for (size, first, last) in [
        (
            SIZES[0],
            "You: erste zweite 你好世界 dritte 👩‍👩‍👧 vierte fünfte sechste siebente",
            "     achtundzwanzigsXte",
        ),
        (
            SIZES[1],
            "You: erste zweite 你好世界 dritte 👩‍👩‍👧",
            "     achtundzwanzigsXte",
        ),
    ] {
        let home = Home::new();
        let mut screen = Screen::open_with(&home, &["agent", "--demo"], size, &[]);
        screen.wait_for_row("You:");
        // The cursor moves to the next row with its word.
        screen.type_in(&format!("{TEXT}\u{1b}[D\u{1b}[DX"));
        let rows = screen.wait_until(|rows| has(rows, "sXte"));
        for row in [first, last] {
            assert!(rows.iter().any(|shown| shown == row), "{row:?}: {rows:?}");
        }
        screen.type_in(CONTROL_C);
        screen.wait_until(|rows| has(rows, "Ctrl-C again leaves"));
        screen.type_in(CONTROL_C);
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
    }
}

#[test]
fn message_is_written_in_the_editor_of_the_user() {
    let home = Home::new();
    home.write("editor.sh", "#!/bin/sh\nprintf '改好的文字' > \"$1\"\n");
    let editor = home.path().join("editor.sh");
    let mut permissions = editor.metadata().unwrap().permissions();
    permissions.set_mode(0o755);
    std::fs::set_permissions(&editor, permissions).unwrap();
    let editor = editor.to_str().unwrap();
    let mut screen = Screen::open_with(
        &home,
        &["agent", "--demo"],
        SIZES[0],
        &[("EDITOR", editor), ("VISUAL", "")],
    );
    screen.wait_for_row("You:");
    screen.type_in(&format!("draft{CONTROL_G}"));
    screen.wait_for_row("You: 改好的文字");
    screen.type_in(&format!("{CONTROL_C}{CONTROL_C}"));
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_message_is_sent_after_the_turn() {
    for size in SIZES {
        let gate = Gate::new();
        let held = gate.clone();
        let model = ModelServer::answering(move |request| {
            if request.json.to_string().contains("und dann 这个 🧳") {
                Reply::text("Second 答え.")
            } else {
                Reply::deltas(["First ", "答え."]).holding(&held)
            }
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("hello\r");
        screen.wait_until(|rows| has(rows, "First"));
        screen.type_in("und dann 这个 🧳\t");
        screen.wait_for_row("queued: und dann 这个 🧳");
        gate.open();
        let rows = screen.wait_until(|rows| has(rows, "Second 答え."));
        assert!(has(&rows, "First 答え."), "{rows:?}");
        // It is on the screen as if it were typed now.
        assert!(has(&rows, "You: und dann 这个 🧳"), "{rows:?}");
        wait_for_prompt(&mut screen);
        screen.type_in(CONTROL_D);
        assert_eq!(screen.end(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversations_are_listed_opened_named_and_deleted() {
    for size in SIZES {
        let model = ModelServer::answering(|request| {
            let said = request.messages().last().unwrap()["content"].to_string();
            Reply::text(if said.contains("旅行") {
                "Nach 京都."
            } else {
                "Hello back."
            })
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("hello\r");
        screen.wait_for_row("Hello back.");
        wait_for_prompt(&mut screen);
        screen.type_in("/new trip\r");
        screen.wait_for_row("Conversation cli:trip.");
        screen.type_in("旅行 🧳 planen\r");
        screen.wait_for_row("Nach 京都.");
        wait_for_prompt(&mut screen);
        screen.type_in("/rename Japan 2027\r");
        screen.wait_for_row("This conversation is named Japan 2027.");
        screen.type_in("/sessions\r");
        let rows = screen.wait_until(|rows| has(rows, "2. hello"));
        assert!(has(&rows, "1. Japan 2027 (open)"), "{rows:?}");
        screen.type_in("/sessions 2\r");
        let rows = screen.wait_for_row("Conversation cli:direct.");
        assert!(!has(&rows, "no conversation"), "{rows:?}");
        screen.type_in("/delete cli:trip\r");
        screen.wait_until(|rows| has(rows, "Deleted cli:trip"));
        screen.type_in("/restore tr\t");
        screen.wait_for_row("You: /restore trip");
        screen.type_in("\r");
        screen.wait_for_row("Restored cli:trip.");
        screen.type_in("/export copy.md\r");
        screen.wait_until(|rows| has(rows, "Wrote "));
        screen.type_in(CONTROL_D);
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        // On return the last exchange is shown.
        let mut again = Screen::open_with(&home, &["agent", "-s", "trip"], size, &[]);
        again.wait_for_row("Nach 京都.");
        wait_for_prompt(&mut again);
        again.type_in(CONTROL_D);
        assert_eq!(again.end(), Some(0));
        let copy = home.path().parent().unwrap().join("copy.md");
        let copy = std::fs::read_to_string(copy).unwrap();
        assert!(copy.contains("Hello back."), "{copy}");
    }
}
