//! Results of jobs and messages of other terminals at a prompt.

use nanobot_testkit::{ModelServer, Reply};

use crate::gateway::Running;
use crate::prompt::Screen;
use crate::screen::{SIZES, count, has, leave, wait_for_prompt};
use crate::support::Home;

async fn model() -> ModelServer {
    let model = ModelServer::answering(|request| {
        let text = request.last_user_text();
        if text.contains("[Scheduled task]") {
            Reply::deltas(["**Trink** 水", " 💧\n\n- eins\n- zwei\n"])
        } else if text.contains("nebenan") {
            Reply::text("Antwort 答え 👩‍👩‍👧.")
        } else {
            Reply::text("Andere.")
        }
    });
    model.await.unwrap()
}

async fn add_job(home: &Home) {
    let add = [
        "cron",
        "add",
        "--name",
        "水 trinken",
        "-m",
        "drink",
        "--in",
        "1s",
    ];
    let to = ["--deliver", "--channel", "cli", "--to", "direct"];
    let added = home.run(&[&add[..], &to[..]].concat()).await;
    assert_eq!(added.code, 0, "{}", added.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn result_of_a_job_is_rendered_under_its_name() {
    for size in SIZES {
        for has_gateway in [false, true] {
            let model = model().await;
            let home = Home::with_model(&model.base_url());
            let gateway = match has_gateway {
                true => Some(Running::start(&home).await),
                false => None,
            };
            let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
            wait_for_prompt(&mut screen);
            add_job(&home).await;
            let rows = screen.wait_until(|rows| has(rows, "• zwei"));
            let heading = rows
                .iter()
                .position(|row| row.starts_with("⏰ Job 水 trinken · "));
            let heading = heading.unwrap_or_else(|| panic!("{rows:?}"));
            assert_eq!(rows[heading + 1], "Trink 水 💧", "{rows:?}");
            for part in ["↳", "**", "Ctrl-C stops ·"] {
                assert!(!has(&rows, part), "{part}: {rows:?}");
            }
            assert!(!rows.iter().any(|row| row == "🐈 nanobot"), "{rows:?}");
            assert_eq!(count(&rows, "Trink 水"), 1, "{rows:?}");
            leave(screen);
            drop(gateway);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_of_another_terminal_precedes_its_reply() {
    for size in SIZES {
        let model = model().await;
        let home = Home::with_model(&model.base_url());
        let gateway = Running::start(&home).await;
        let mut screen = Screen::open_with(&home, &["agent"], size, &[]);
        let mut other = Screen::open_with(&home, &["agent"], size, &[]);
        wait_for_prompt(&mut screen);
        wait_for_prompt(&mut other);
        other.type_in("frage 你好 👩‍👩‍👧 nebenan\r");
        let rows = screen.wait_until(|rows| has(rows, "Antwort 答え"));
        let row = |part: &str| rows.iter().position(|row| row.contains(part));
        let asked = row("Another terminal: frage 你好 👩‍👩‍👧");
        assert!(asked.is_some() && asked < row("Antwort"), "{rows:?}");
        wait_for_prompt(&mut screen);
        let rows = other.wait_until(|rows| has(rows, "Antwort 答え"));
        assert!(!has(&rows, "Another terminal"), "{rows:?}");
        wait_for_prompt(&mut other);
        // A long message is shown in part, and a command is shown, too.
        let long = "世界 ".repeat(100);
        other.type_in(&format!("{long}\r"));
        other.wait_until(|rows| has(rows, "Andere."));
        let rows = screen.wait_until(|rows| has(rows, "Andere."));
        assert!((3..=4).contains(&count(&rows, "世界")), "{rows:?}");
        wait_for_prompt(&mut screen);
        wait_for_prompt(&mut other);
        other.type_in("/status\r");
        screen.wait_until(|rows| has(rows, "Another terminal: /status"));
        let asked = home.run(&["agent", "-m", "nebenan 📎"]).await;
        assert_eq!(asked.code, 0, "{}", asked.stderr);
        screen.wait_until(|rows| has(rows, "Another terminal: nebenan 📎"));
        leave(other);
        leave(screen);
        drop(gateway);
    }
}
