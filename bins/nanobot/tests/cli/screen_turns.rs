//! Turns at the prompt as a person sees them: steering, queueing, stopping, repeating.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{Gate, ModelServer, Reply};
use nix::sys::signal::{Signal, killpg};
use serde_json::json;

use crate::gateway::Running;
use crate::prompt::Screen;
use crate::screen::{CONTROL_C, CONTROL_G, SIZES, count, has, leave, wait_for_prompt};
use crate::support::Home;

/// Returns the text of the newest message of a request.
fn said(request: &ModelRequest) -> String {
    request
        .messages()
        .last()
        .map_or_else(String::new, |message| message["content"].to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_message_has_a_status_and_is_stopped() {
    for size in SIZES {
        let asked = AtomicUsize::new(0);
        let model = ModelServer::answering(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::text("Erste 答え 👩‍👩‍👧."),
            _ => Reply::text("Zweite 答え\n").then_stall(),
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("frage 你好\r");
        screen.wait_until(|rows| has(rows, "Erste 答え 👩‍👩‍👧."));
        wait_for_prompt(&mut screen);
        screen.type_in("/retry\r");
        screen.wait_until(|rows| has(rows, "Zweite 答え") && has(rows, "· Ctrl-C stops"));
        screen.type_in(CONTROL_C);
        screen.wait_until(|rows| has(rows, "Stopped 1 task"));
        wait_for_prompt(&mut screen);
        // The stopped command does not keep the conversation open.
        screen.type_in("/new trip\r");
        screen.wait_for_row("Conversation cli:trip.");
        leave(screen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_of_another_terminal_is_stopped_or_queued_after() {
    for size in SIZES {
        let gate = Gate::new();
        let held = gate.clone();
        let model = ModelServer::answering(move |request| match said(request) {
            text if text.contains("anderswo") => Reply::text("Dort 你好\n").then_stall(),
            text if text.contains("danach") => Reply::text("Danach 👩‍👩‍👧."),
            _ => Reply::deltas(["Hier", " auch."]).holding(&held),
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let gateway = Running::start(&home).await;
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        let mut other = Screen::open(&home, &["agent", "-m", "anderswo"]);
        screen.wait_until(|rows| has(rows, "Dort 你好") && has(rows, "· Ctrl-C stops"));
        screen.type_in(CONTROL_C);
        screen.wait_until(|rows| has(rows, "Stopped 1 task"));
        wait_for_prompt(&mut screen);
        other.end();

        let mut other = Screen::open(&home, &["agent", "-m", "nochmal"]);
        screen.wait_until(|rows| has(rows, "Hier") && has(rows, "· Ctrl-C stops"));
        screen.type_in("danach 你好\t");
        screen.wait_for_row("queued: danach 你好");
        gate.open();
        let rows = screen.wait_until(|rows| has(rows, "Danach 👩‍👩‍👧."));
        assert_eq!(count(&rows, "You: danach 你好"), 1, "{rows:?}");
        wait_for_prompt(&mut screen);
        assert_eq!(other.end(), Some(0), "{}", other.text);
        leave(screen);
        drop(gateway);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_is_not_left_while_its_subagent_works() {
    for size in SIZES {
        let gate = Gate::new();
        let held = gate.clone();
        let model = ModelServer::answering(move |request| {
            if request.system().starts_with("# Subagent") {
                return Reply::text("It is 42.").after(&held);
            }
            match request.messages().last() {
                Some(last) if last["role"] == "tool" => Reply::text("Weitergegeben 你好."),
                Some(last) if last["content"].to_string().contains("[Subagent '") => {
                    Reply::text("Die Zahl ist 42 🧮.")
                }
                _ => Reply::call("spawn", &json!({"task": "find it", "label": "zahl 数"})),
            }
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("such die zahl\r");
        screen.wait_until(|rows| has(rows, "Weitergegeben 你好."));
        wait_for_prompt(&mut screen);
        screen.type_in("/agents s\t");
        screen.wait_for_row("You: /agents stop");
        screen.type_in("\t");
        screen.wait_until(|rows| {
            let row = rows.last().map_or("", String::as_str);
            row.strip_prefix("You: /agents stop ")
                .is_some_and(|id| !id.is_empty())
        });
        screen.type_in(CONTROL_C);
        screen.wait_for_row("You:");
        screen.type_in("/new trip\r");
        screen.wait_until(|rows| has(rows, "a subagent or a job"));
        gate.open();
        screen.wait_until(|rows| has(rows, "Die Zahl ist 42 🧮."));
        wait_for_prompt(&mut screen);
        screen.type_in("/new trip\r");
        screen.wait_for_row("Conversation cli:trip.");
        leave(screen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_does_not_join_a_session_of_a_prompt_without_the_gateway() {
    let model = ModelServer::answering(|_| Reply::text("Ja 你好."));
    let model = model.await.unwrap();
    for size in SIZES {
        let home = Home::with_model(&model.base_url());
        let mut first = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut first);
        let gateway = Running::start(&home).await;
        let mut second = Screen::open(&home, &["agent"]);
        let process = format!("another prompt (process {})", first.pid());
        second.wait_until(|rows| has(rows, &process));
        assert_eq!(second.end(), Some(1), "{}", second.text);
        // The first prompt joins the gateway, and then both share the session.
        first.type_in("/restart\r");
        first.wait_until(|rows| has(rows, "Restarted."));
        wait_for_prompt(&mut first);
        let mut second = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut second);
        first.type_in("hallo\r");
        first.wait_until(|rows| has(rows, "Ja 你好."));
        second.wait_until(|rows| has(rows, "Ja 你好."));
        wait_for_prompt(&mut first);
        leave(first);
        leave(second);
        drop(gateway);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_commands_act_as_if_typed_after_the_turn() {
    for size in SIZES {
        let gate = Gate::new();
        let held = gate.clone();
        let model =
            ModelServer::answering(move |_| Reply::deltas(["Antwort ", "你好."]).holding(&held));
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("hallo\r");
        screen.wait_until(|rows| has(rows, "Antwort") && has(rows, "· Ctrl-C stops"));
        screen.type_in("/rename 旅行 🧳\t");
        screen.wait_for_row("queued: /rename 旅行 🧳");
        screen.type_in("exit\t");
        screen.wait_for_row("queued: exit");
        gate.open();
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        let rows = screen.wait_until(|rows| has(rows, "This conversation is named 旅行 🧳."));
        assert!(has(&rows, "You: /rename 旅行 🧳"), "{rows:?}");
        assert!(has(&rows, "Antwort 你好."), "{rows:?}");
        assert_eq!(model.requests().len(), 1);
    }
}

#[test]
fn interrupt_is_for_the_editor_while_it_is_open() {
    let home = Home::new();
    for (name, script) in [
        ("saves.sh", "trap 'printf \"改好 🧳\" > \"$1\"; exit 0' INT"),
        ("ends.sh", "true"),
    ] {
        let script = format!("#!/bin/sh\n{script}\necho ready\nwhile :; do read -r line; done\n");
        home.write(name, &script);
        let path = home.path().join(name);
        let mut permissions = path.metadata().unwrap().permissions();
        permissions.set_mode(0o755);
        std::fs::set_permissions(&path, permissions).unwrap();
    }
    for size in SIZES {
        for (name, expected) in [
            ("saves.sh", "You: 改好 🧳"),
            ("ends.sh", "You: entwurf 你好"),
        ] {
            let editor = home.path().join(name);
            let editor = [("EDITOR", editor.to_str().unwrap()), ("VISUAL", "")];
            let mut screen = Screen::open_with(&home, &["agent", "--demo"], size, &editor);
            wait_for_prompt(&mut screen);
            screen.type_in(&format!("entwurf 你好{CONTROL_G}"));
            screen.wait_for_row("ready");
            // As a terminal sends it after Ctrl-C, to all processes of the group.
            killpg(screen.pid(), Signal::SIGINT).unwrap();
            screen.wait_until(|rows| rows.last().is_some_and(|row| row == expected));
            screen.type_in(" x");
            screen.wait_for_row(&format!("{expected} x"));
            screen.type_in(CONTROL_C);
            screen.wait_for_row("You:");
            leave(screen);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_during_a_turn_steers_it() {
    for size in SIZES {
        let gate = Gate::new();
        let held = gate.clone();
        let model = ModelServer::answering(move |request| {
            if request.json.to_string().contains("牛奶") {
                Reply::text("Brot und 牛奶 🥛.")
            } else {
                Reply::call("list_dir", &json!({"path": "."})).after(&held)
            }
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("kauf brot\r");
        model.wait_for(1).await.unwrap();
        screen.type_in("und 牛奶 🥛\r");
        screen.wait_until(|rows| has(rows, "You: und 牛奶 🥛") && has(rows, "· Ctrl-C stops"));
        gate.open();
        screen.wait_until(|rows| has(rows, "Brot und 牛奶 🥛."));
        let rows = wait_for_prompt(&mut screen);
        assert_eq!(count(&rows, "Brot und 牛奶"), 1, "{rows:?}");
        assert_eq!(model.requests().len(), 2);
        leave(screen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_turn_drops_the_queue_and_keeps_the_prompt() {
    for size in SIZES {
        let model = ModelServer::answering(|_| Reply::text("Niemals 完了 👩‍👩‍👧\n").then_stall());
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("hallo 你好\r");
        screen.wait_until(|rows| has(rows, "Niemals 完了 👩‍👩‍👧") && has(rows, "writing"));
        screen.type_in("später 你好\t");
        screen.wait_for_row("queued: später 你好");
        screen.type_in("halb 字");
        screen.wait_for_row("You: halb 字");
        screen.type_in(CONTROL_C);
        screen.wait_until(|rows| has(rows, "Ctrl-C again stops the turn; Up"));
        screen.type_in(CONTROL_C);
        screen.wait_until(|rows| has(rows, "Stopped 1 task"));
        let rows = wait_for_prompt(&mut screen);
        assert!(!has(&rows, "queued:"), "{rows:?}");
        assert_eq!(model.requests().len(), 1);
        leave(screen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paste_of_several_lines_is_one_message() {
    for size in SIZES {
        let model = ModelServer::answering(|_| Reply::text("Gelesen."));
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("\u{1b}[200~erste 行\rzweite 👩‍👩‍👧\r\tdritte\u{1b}[201~");
        let rows = screen.wait_until(|rows| has(rows, "dritte"));
        assert!(has(&rows, "You: erste 行"), "{rows:?}");
        assert!(has(&rows, "     zweite 👩‍👩‍👧"), "{rows:?}");
        assert_eq!(model.requests().len(), 0);
        screen.type_in("\r");
        screen.wait_until(|rows| has(rows, "Gelesen."));
        let asked = model.requests()[0].last_user_text();
        assert!(asked.contains("erste 行\nzweite 👩‍👩‍👧\n\tdritte"), "{asked}");
        wait_for_prompt(&mut screen);
        leave(screen);
    }
}

/// A terminal without bracketed pastes, or a program, sends more keys at once than one read takes.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_arrive_at_once_are_all_read() {
    let typed = "键 and keys ".repeat(200);
    for size in SIZES {
        let model = ModelServer::answering(|_| Reply::text("Gelesen."));
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in(&format!("{typed}.\r"));
        screen.wait_until(|rows| has(rows, "Gelesen."));
        let asked = model.requests()[0].last_user_text();
        assert!(asked.starts_with(&format!("{typed}.")), "{asked}");
        wait_for_prompt(&mut screen);
        leave(screen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn last_turn_is_listed_copied_and_undone() {
    /// The base64 form of `Fertig 完了 👩‍👩‍👧.`
    const COPY: &str = "\u{1b}]52;c;RmVydGlnIOWujOS6hiDwn5Gp4oCN8J+RqeKAjfCfkacu\u{7}";
    for size in SIZES {
        let model = ModelServer::answering(|request| match request.messages().last() {
            Some(last) if last["role"] == "tool" => Reply::text("Fertig 完了 👩‍👩‍👧."),
            _ => Reply::call("list_dir", &json!({"path": "."})),
        });
        let model = model.await.unwrap();
        let home = Home::with_model(&model.base_url());
        home.write("workspace/旅行 🧳.md", "x");
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        screen.type_in("schau nach\r");
        screen.wait_until(|rows| has(rows, "Fertig 完了 👩‍👩‍👧."));
        wait_for_prompt(&mut screen);
        screen.type_in("/last\r");
        screen.wait_until(|rows| has(rows, "    ") && has(rows, "旅行 🧳.md"));
        screen.type_in("/status\r");
        screen.wait_until(|rows| has(rows, "cli:direct"));
        // The answer of a command is no reply to copy.
        screen.type_in("/copy\r");
        screen.wait_until(|rows| has(rows, "Copied, if"));
        assert!(screen.text.contains(COPY), "{}", screen.text);
        screen.type_in("/undo\r");
        screen.wait_until(|rows| has(rows, "/redo"));
        screen.type_in("/redo\r");
        screen.wait_until(|rows| has(rows, "Restored."));
        leave(screen);
        // So is the reply of a conversation that is opened again.
        let mut again = Screen::open_with(&home, &["agent"], size, &[]);
        again.wait_until(|rows| has(rows, "Fertig 完了 👩‍👩‍👧."));
        wait_for_prompt(&mut again);
        again.type_in("/copy\r");
        again.wait_until(|rows| has(rows, "Copied, if"));
        assert!(again.text.contains(COPY), "{}", again.text);
        leave(again);
    }
}
