//! From nothing to a reply at a terminal: setup, the model of a key, long and piped messages, and
//! reminders, on an emulated screen of 80 and of 40 columns.

use std::fs::File;

use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::prompt::Screen;
use crate::support::{Home, assert_says};

const SIZES: [(u16, u16); 2] = [(60, 80), (60, 40)];
const CONTROL_D: &str = "\u{4}";

fn has(rows: &[String], part: &str) -> bool {
    rows.iter().any(|row| row.contains(part))
}

/// Waits until the last row ends with `question`, so that its answer can be typed.
fn wait_for_question(screen: &mut Screen, question: &str) -> Vec<String> {
    screen.wait_until(|rows| rows.last().is_some_and(|row| row.ends_with(question)))
}

/// Answers questions in order.
fn answer(screen: &mut Screen, dialogue: &[(&str, &str)]) {
    for (question, text) in dialogue {
        wait_for_question(screen, question);
        screen.type_in(&format!("{text}\r"));
    }
}

/// Waits until the prompt is empty and nothing runs.
fn wait_for_prompt(screen: &mut Screen) -> Vec<String> {
    screen.wait_until(|rows| {
        rows.last().is_some_and(|row| row == "You:") && !has(rows, "· Ctrl-C stops")
    })
}

/// Returns the screen as one text, without the breaks of rows.
fn joined(rows: &[String]) -> String {
    rows.join(" ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

async fn model_saying(text: &'static str) -> ModelServer {
    ModelServer::answering(move |_| Reply::text(text))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_leads_to_a_reply_in_one_command() {
    for size in SIZES {
        let model = ModelServer::with_key("key-of-ann", [Reply::text("你好，安娜 🌸！")])
            .await
            .unwrap();
        let home = Home::new();
        let mut screen = Screen::open_with(&home, &["onboard"], size, &[]);
        answer(
            &mut screen,
            &[
                ("(Enter skips):", "custom"),
                ("v1):", "http://127.0.0.1:1/v1"),
                ("shown):", "key-of-ann"),
                ("Try again? [Y/n]", ""),
            ],
        );
        let rows = wait_for_question(&mut screen, "127.0.0.1:1/v1):");
        // Words are not broken at the edge of the screen.
        let expected = match size.1 {
            40 => "network.",
            _ => "Check the address, the key and the network.",
        };
        assert!(rows.iter().any(|row| row == expected), "{rows:?}");
        screen.type_in(&format!("{}\r", model.base_url()));
        answer(
            &mut screen,
            &[
                ("keeps it):", ""),
                ("scripted-model):", ""),
                ("call you?", "安娜 🌸"),
                ("):", "Asia/Tokyo"),
                ("(Enter skips):", ""),
                ("service? [y/N]", ""),
                ("Write this? [Y/n]", "n"),
                ("nothing):", "name"),
                ("call you?", "娜娜 🌷"),
                ("):", "Asia/Tokyo"),
            ],
        );
        let rows = wait_for_question(&mut screen, "Write this? [Y/n]");
        assert!(has(&rows, "name: 娜娜 🌷"), "{rows:?}");
        assert_eq!(home.names("."), Vec::<String>::new(), "nothing yet");
        screen.type_in("\r");
        answer(&mut screen, &[("Talk now? [Y/n]", "")]);
        wait_for_prompt(&mut screen);
        screen.type_in("你好 👋\r");
        screen.wait_until(|rows| has(rows, "你好，安娜 🌸！"));
        wait_for_prompt(&mut screen);
        screen.type_in(CONTROL_D);
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        assert!(!screen.text.contains("key-of-ann"), "{}", screen.text);
        assert_says(&home.read("workspace/USER.md"), &["- Name: 娜娜 🌷\n"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_only_ends_without_further_offers() {
    let model = ModelServer::with_key("key-of-ann", []).await.unwrap();
    let home = Home::new();
    let mut screen = Screen::open_with(&home, &["onboard", "--setup-only"], SIZES[0], &[]);
    let base = model.base_url();
    answer(
        &mut screen,
        &[
            ("(Enter skips):", "custom"),
            ("v1):", &base),
            ("shown):", "key-of-ann"),
            ("scripted-model):", ""),
            ("call you?", "Ann"),
            ("):", "Asia/Tokyo"),
            ("(Enter skips):", ""),
            ("Write this? [Y/n]", ""),
        ],
    );
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    assert_says(&screen.text, &["✓ Wrote "]);
    for offer in ["service?", "Talk now?"] {
        assert!(!screen.text.contains(offer), "{}", screen.text);
    }
    assert_says(&home.read("config.json"), &[&base]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_login_is_asked_again_and_nothing_is_written_without_consent() {
    for size in SIZES {
        let home = Home::new();
        let mut screen = Screen::open_with(&home, &["onboard"], size, &[]);
        answer(
            &mut screen,
            &[
                ("(Enter skips):", ""),
                ("call you?", ""),
                ("):", ""),
                ("(Enter skips):", "telegram"),
                (">", ""),
                ("Try again? [Y/n]", ""),
                (">", ""),
                ("Try again? [Y/n]", "n"),
            ],
        );
        let rows = wait_for_question(&mut screen, "service? [y/N]");
        let shown = joined(&rows);
        assert!(shown.contains("nanobot channels login telegram"), "{shown}");
        assert!(!shown.contains("--no-probe"), "{shown}");
        screen.type_in("\r");
        answer(
            &mut screen,
            &[("Write this? [Y/n]", "n"), ("nothing):", "")],
        );
        screen.wait_until(|rows| has(rows, "Nothing was written."));
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        assert_eq!(home.names("."), Vec::<String>::new());
    }
}

/// A key in the environment, and a vendor on loopback. Vendors have a usual model or a list.
#[tokio::test(flavor = "multi_thread")]
async fn key_without_a_model_starts_with_a_model_of_its_vendor() {
    for (vendor, variable, expected) in [
        ("deepseek", "DEEPSEEK_API_KEY", "deepseek-chat"),
        ("nvidia", "NVIDIA_API_KEY", "scripted-model"),
    ] {
        for size in SIZES {
            let key = "nv-0123456789abcdef";
            let model = ModelServer::with_key(key, [Reply::text("可以 👌。")])
                .await
                .unwrap();
            let home = Home::new();
            home.configure(&json!({"providers": {vendor: {"apiBase": model.base_url()}}}));
            let mut screen = Screen::open_with(&home, &["agent"], size, &[(variable, key)]);
            let rows = wait_for_prompt(&mut screen);
            let shown = joined(&rows);
            assert_says(&shown, &[expected, &format!("({vendor}, by default)")]);
            let names_command = shown.contains("nanobot config set agents.defaults.model");
            assert_eq!(names_command, vendor == "nvidia", "{shown}");
            screen.type_in("能听见吗 👂\r");
            screen.wait_until(|rows| has(rows, "可以 👌。"));
            wait_for_prompt(&mut screen);
            assert_eq!(model.requests()[0].json["model"], expected);
            screen.type_in(CONTROL_D);
            assert_eq!(screen.end(), Some(0), "{}", screen.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_message_is_kept_whole_and_the_person_informed() {
    let pasted: String = (0..3_000)
        .map(|line| format!("第 {line} 行 🙂。\n"))
        .collect();
    for size in SIZES {
        for can_keep in [true, false] {
            let model = model_saying("读完了 📖。").await;
            let home = Home::with_model(&model.base_url());
            if !can_keep {
                // A file in place of the folder, like a disk that accepts no files.
                home.write("tool-results", "");
            }
            let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
            wait_for_prompt(&mut screen);
            screen.type_in(&format!("\u{1b}[200~{pasted}\u{1b}[201~\r"));
            screen.wait_until(|rows| has(rows, "读完了 📖。"));
            let rows = wait_for_prompt(&mut screen);
            let notice = match can_keep {
                true => "it is kept whole in a file",
                false => "could not be kept in a file",
            };
            let shown = joined(&rows);
            assert!(shown.contains(notice), "{can_keep}: {shown}");
            if can_keep {
                let names = home.names("tool-results");
                let kept = home.read(&format!("tool-results/{}", names[0]));
                assert!(kept == pasted.trim_end(), "{} bytes", kept.len());
            }
            screen.type_in(CONTROL_D);
            assert_eq!(screen.end(), Some(0), "{}", screen.text);
        }
    }
}

/// Opens a terminal whose standard input is a file.
fn open_with_input(home: &Home, arguments: &[&str], input: &str, size: (u16, u16)) -> Screen {
    home.write("input.txt", input);
    let path = home.path().join("input.txt");
    let input = File::open(path).unwrap();
    Screen::open_from(home, arguments, size, &[], Some(input))
}

#[tokio::test(flavor = "multi_thread")]
async fn piped_message_is_answered_on_the_terminal() {
    for size in SIZES {
        let model = model_saying("出错了 💥。").await;
        let home = Home::with_model(&model.base_url());
        let log = "第一行\n第二行: 失败 ❌\n";
        for (arguments, asked) in [
            (
                &["agent", "-m", "解释"][..],
                "解释\n\n[Standard input:]\n第一行",
            ),
            (&["agent", "-"], "第一行\n第二行"),
            (
                &["agent", "-m", "看", "-f", ".nanobot/input.txt"],
                "看\n\n[Standard input:]",
            ),
            (&["agent", "--quiet", "-"], "第一行\n第二行"),
        ] {
            let mut screen = open_with_input(&home, arguments, log, size);
            assert_eq!(screen.end(), Some(0), "{}", screen.text);
            let rows =
                screen.wait_until(|rows| has(rows, "出错了 💥。") && !has(rows, "· Ctrl-C stops"));
            let count = rows.iter().filter(|row| row.contains("出错了")).count();
            assert_eq!(count, 1, "{arguments:?}: {rows:?}");
            let request = model.requests().pop().unwrap();
            assert_says(&request.last_user_text(), &[asked]);
        }
        let mut screen = open_with_input(&home, &["agent", "--lines"], log, size);
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        let rows = screen.wait_until(|rows| {
            rows.iter()
                .filter(|row| row.contains("出错了 💥。"))
                .count()
                == 2
        });
        assert!(!has(&rows, "Ctrl-C"), "{rows:?}");
        let mut screen = open_with_input(&home, &["agent", "--json", "-"], log, size);
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        let rows: Vec<Value> = screen
            .text
            .lines()
            .map(|row| serde_json::from_str(row).expect(row))
            .collect();
        let end = json!({"type": "end", "ok": true, "code": 0});
        assert_eq!(rows.last(), Some(&end), "{rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reminder_fires_at_a_prompt_or_is_shown_at_the_next_one() {
    for size in SIZES {
        let model = ModelServer::answering(|request| {
            let is_due = request.last_user_text().contains("[Scheduled task]");
            let has_called = request.messages().last().unwrap()["role"] == "tool";
            match (is_due, has_called) {
                (true, _) => Reply::text("该喝水了 💧！"),
                (false, false) => Reply::call(
                    "cron",
                    &json!({"action": "add", "message": "喝水", "at": "in 1s"}),
                ),
                (false, true) => Reply::text("好的 👍。"),
            }
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("提醒我喝水 🥤\r");
        let is_shown = |rows: &[String]| {
            let shown = joined(rows);
            shown.contains("It fires while this prompt is open") && shown.contains("该喝水了 💧！")
        };
        screen.wait_until(is_shown);
        let rows = wait_for_prompt(&mut screen);
        assert_says(
            &joined(&rows),
            &["`nanobot gateway` (or its service) fires it"],
        );
        screen.type_in(CONTROL_D);
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        // A result that no terminal showed.
        let unseen = json!([{"at": "2026-11-24T02:00:00Z", "text": "该散步了 🚶！"}]);
        home.write("cron/jobs.json.unseen", &unseen.to_string());
        for is_new in [true, false] {
            let mut screen = Screen::open_with(&home, &["agent", "-s", "cli:二"], size, &[]);
            let rows = wait_for_prompt(&mut screen);
            assert_eq!(has(&rows, "该散步了 🚶！"), is_new, "{rows:?}");
            screen.type_in(CONTROL_D);
            assert_eq!(screen.end(), Some(0), "{}", screen.text);
        }
    }
}
