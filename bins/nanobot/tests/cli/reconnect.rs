//! A prompt whose gateway is killed, ends or restarts.

use nanobot_testkit::{Gate, ModelServer, Reply};
use nix::sys::signal::Signal;

use crate::gateway::Running;
use crate::prompt::Screen;
use crate::screen::{CONTROL_C, CONTROL_D, SIZES, count, has};
use crate::support::{Home, until};

/// A model that answers each message with one text. Of the first answer, only the beginning is sent
/// until the gate is open.
async fn model(gate: &Gate) -> ModelServer {
    let held = gate.clone();
    let model = ModelServer::answering(move |request| {
        let said = request.messages().last().unwrap()["content"].to_string();
        if said.contains("meanwhile") {
            Reply::text("Reply to the queued one.")
        } else if said.contains("afterwards") {
            Reply::text("Reply from the new gateway.")
        } else {
            Reply::deltas(["Recov", "ered 答え 👩‍👩‍👧."]).holding(&held)
        }
    });
    model.await.unwrap()
}

async fn kill(gateway: Running) {
    gateway.signal(Signal::SIGKILL);
    gateway.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_survives_a_killed_gateway() {
    for size in SIZES {
        survive_a_killed_gateway(size).await;
    }
}

async fn survive_a_killed_gateway(size: (u16, u16)) {
    let gate = Gate::new();
    let model = model(&gate).await;
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
    screen.wait_for_row("You:");
    screen.type_in("first question\r");
    until("the model is asked", async || !model.requests().is_empty()).await;
    kill(gateway).await;
    screen.wait_until(|rows| has(rows, "The gateway is gone; reconnecting"));
    screen.type_in("meanwhile 你好\r");
    screen.wait_for_row("queued: meanwhile 你好");
    screen.type_in("half 字 typ");
    screen.wait_for_row("You: half 字 typ");

    gate.open();
    let gateway = Running::start(&home).await;
    let rows = screen.wait_until(|rows| has(rows, "Reply to the queued one."));
    assert!(has(&rows, "The gateway is back."), "{rows:?}");
    assert_eq!(count(&rows, "Recovered 答え 👩‍👩‍👧."), 1, "{rows:?}");
    assert!(!has(&rows, "queued:"), "{rows:?}");
    let rows = screen.wait_for_row("You: half 字 typ");
    assert_eq!(count(&rows, "half 字 typ"), 1, "{rows:?}");
    screen.type_in("ed, afterwards\r");
    let rows = screen.wait_until(|rows| has(rows, "Reply from the new gateway."));
    assert_eq!(count(&rows, "Recovered 答え 👩‍👩‍👧."), 1, "{rows:?}");
    assert_eq!(count(&rows, "Reply to the queued one."), 1, "{rows:?}");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);

    let session = home.read("workspace/sessions/cli_direct.jsonl");
    for said in ["first question", "meanwhile", "half 字 typed, afterwards"] {
        let lines = session
            .lines()
            .filter(|line| line.contains("\"role\":\"user\"") && line.contains(said));
        assert_eq!(lines.count(), 1, "{said}: {session}");
    }
    drop(gateway);
    assert_eq!(model.violations(), Vec::<String>::new());
}

/// The gateway ends between the last word of a reply and its end.
#[tokio::test(flavor = "multi_thread")]
async fn reply_whose_end_was_missed_is_not_repeated() {
    for size in SIZES {
        miss_the_end_of_a_reply(size).await;
    }
}

async fn miss_the_end_of_a_reply(size: (u16, u16)) {
    let gate = Gate::new();
    let held = gate.clone();
    let model =
        ModelServer::answering(
            move |request| match request.last_user_text().contains("and now") {
                true => Reply::text("Second reply."),
                false => Reply::text("Whole 答え 👩‍👩‍👧.").holding(&held),
            },
        );
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
    screen.wait_for_row("You:");
    screen.type_in("first question\r");
    screen.wait_for_row("Whole 答え 👩‍👩‍👧.");
    gateway.signal(Signal::SIGTERM);
    screen.wait_until(|rows| has(rows, "The gateway is gone; reconnecting"));
    gate.open();
    assert_eq!(gateway.end().await.1, Some(0));

    let gateway = Running::start(&home).await;
    screen.wait_until(|rows| has(rows, "The gateway is back."));
    screen.type_in("and now?\r");
    let rows = screen.wait_until(|rows| has(rows, "Second reply."));
    assert_eq!(count(&rows, "Whole 答え 👩‍👩‍👧."), 1, "{rows:?}");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    drop(gateway);
}

/// The turn ends while the prompt is not connected: its reply is in the session only.
#[tokio::test(flavor = "multi_thread")]
async fn reply_of_an_ending_gateway_is_shown_once() {
    for size in SIZES {
        show_the_reply_of_an_ending_gateway(size).await;
    }
}

async fn show_the_reply_of_an_ending_gateway(size: (u16, u16)) {
    let gate = Gate::new();
    gate.open();
    let model = model(&gate).await;
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
    screen.wait_for_row("You:");
    screen.type_in("first question\r");
    screen.wait_for_row("Recovered 答え 👩‍👩‍👧.");
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    screen.wait_until(|rows| has(rows, "The gateway is gone; reconnecting"));
    // Another terminal uses the session without a gateway.
    let asked = home.run(&["agent", "-m", "afterwards"]).await;
    assert_eq!(asked.code, 0, "{}", asked.stderr);

    let gateway = Running::start(&home).await;
    let rows = screen.wait_until(|rows| has(rows, "Reply from the new gateway."));
    assert_eq!(count(&rows, "Recovered 答え 👩‍👩‍👧."), 1, "{rows:?}");
    screen.type_in("meanwhile 你好\r");
    let rows = screen.wait_until(|rows| has(rows, "Reply to the queued one."));
    assert_eq!(count(&rows, "Reply from the new gateway."), 1, "{rows:?}");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    drop(gateway);
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_without_its_gateway_ends_at_once() {
    let gate = Gate::new();
    let model = model(&gate).await;
    let all_keys = [CONTROL_D, "\u{3}\u{3}", "/exit\r"];
    for (size, keys) in SIZES
        .into_iter()
        .flat_map(|size| all_keys.map(|keys| (size, keys)))
    {
        let home = Home::with_model(&model.base_url());
        let gateway = Running::start(&home).await;
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        screen.wait_for_row("You:");
        kill(gateway).await;
        screen.wait_until(|rows| has(rows, "The gateway is gone; reconnecting"));
        screen.type_in("/sessions x\r");
        screen.wait_until(|rows| has(rows, "No conversation was found."));
        screen.type_in(keys);
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
    }
}

/// A running turn does not keep the prompt open.
#[tokio::test(flavor = "multi_thread")]
async fn prompt_ends_although_its_turn_has_no_reply() {
    for size in SIZES {
        end_without_a_reply(size).await;
    }
}

async fn end_without_a_reply(size: (u16, u16)) {
    let gate = Gate::new();
    let model = model(&gate).await;
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
    screen.wait_for_row("You:");
    screen.type_in("first question\r");
    until("the model is asked", async || !model.requests().is_empty()).await;
    kill(gateway).await;
    screen.wait_until(|rows| has(rows, "The gateway is gone; reconnecting"));
    screen.type_in(CONTROL_C);
    screen.wait_for_row("queued: /stop");
    screen.type_in(CONTROL_C);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    gate.open();
}

/// A prompt at which nothing was typed shows what another terminal asks in its session.
#[tokio::test(flavor = "multi_thread")]
async fn prompt_shows_turns_of_its_session_from_the_beginning() {
    for size in SIZES {
        show_turns_from_the_beginning(size).await;
    }
}

async fn show_turns_from_the_beginning(size: (u16, u16)) {
    let gate = Gate::new();
    gate.open();
    let model = model(&gate).await;
    let home = Home::with_model(&model.base_url());
    let gateway = Running::start(&home).await;
    let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
    screen.wait_for_row("You:");
    let asked = home.run(&["agent", "-m", "afterwards"]).await;
    assert_eq!(asked.code, 0, "{}", asked.stderr);
    screen.wait_for_row("Reply from the new gateway.");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    drop(gateway);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_prompt_on_a_session_without_a_gateway_is_refused() {
    for size in SIZES {
        refuse_the_second_prompt(size).await;
    }
}

async fn refuse_the_second_prompt(size: (u16, u16)) {
    let home = Home::new();
    let open = |arguments: &[&str]| Screen::open_with(&home, arguments, size, &[]);
    let mut first = open(&["agent", "--demo"]);
    first.wait_for_row("You:");
    let mut second = open(&["agent", "--demo"]);
    assert_eq!(second.end(), Some(1), "{}", second.text);
    let process = format!("another prompt (process {})", first.pid());
    for part in [
        process.as_str(),
        "cli:direct",
        "--session",
        "nanobot gateway",
    ] {
        assert!(second.text.contains(part), "{part}: {}", second.text);
    }
    // Another session is free until a prompt has it; the prompt that is refused goes on.
    let mut other = open(&["agent", "--demo", "--session", "other"]);
    other.wait_for_row("You:");
    other.type_in("/new direct\r");
    other.wait_until(|rows| rows.join(" ").contains("another prompt (process"));
    other.type_in("/status\r");
    other.wait_until(|rows| has(rows, "cli:other"));
    other.type_in("/restart\r");
    other.wait_until(|rows| has(rows, "Restarted."));
    other.type_in(CONTROL_D);
    assert_eq!(other.end(), Some(0), "{}", other.text);

    // A question is no prompt, and the lock of a killed process is free.
    let asked = home.run(&["agent", "--demo", "-m", "hello"]).await;
    assert_eq!(asked.code, 0, "{}", asked.stderr);
    nix::sys::signal::kill(first.pid(), Signal::SIGKILL).unwrap();
    first.end();
    let mut third = open(&["agent", "--demo"]);
    third.wait_for_row("You:");
    third.type_in(CONTROL_D);
    assert_eq!(third.end(), Some(0), "{}", third.text);
    assert_eq!(home.names("prompt-locks").len(), 2);
}

/// Names that no file can have are locked as well.
#[test]
fn prompt_on_a_session_with_a_hostile_name_locks_it_below_the_home() {
    for size in SIZES {
        let home = Home::new();
        let name = format!("../../{}", "x".repeat(300));
        let arguments = ["agent", "--demo", "--session", &name];
        let mut first = Screen::open_with(&home, &arguments, size, &[]);
        first.wait_for_row("You:");
        let mut second = Screen::open_with(&home, &arguments, size, &[]);
        assert_eq!(second.end(), Some(1), "{}", second.text);
        assert_eq!(home.names("prompt-locks").len(), 1);
        first.type_in(CONTROL_D);
        assert_eq!(first.end(), Some(0), "{}", first.text);
    }
}
