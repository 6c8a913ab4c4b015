//! Jobs that people and the assistant add, and that a gateway runs.

use nanobot_channel_telegram_fake::{Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::prompt::Screen;
use crate::support::{Home, assert_says, finish, until};

#[tokio::test]
async fn jobs_are_managed_without_a_gateway() {
    let home = Home::new();
    let add = [
        "cron",
        "add",
        "-m",
        "Water the plants",
        "--cron",
        "0 8 * * 1",
        "--tz",
        "Europe/Paris",
    ];
    let added = home.run(&add).await;
    assert_says(
        &added.stdout,
        &[
            "Created job 'Water the plants' (id: ",
            "Next run: Mon ",
            " 08:00 Europe/Paris.",
        ],
    );
    let jobs: Value = serde_json::from_str(&home.read("cron/jobs.json")).unwrap();
    assert_eq!(
        (&jobs["version"], &jobs["jobs"][0]["schedule"]["tz"]),
        (&json!(1), &json!("Europe/Paris"))
    );
    let id = jobs["jobs"][0]["id"].as_str().unwrap();
    for (command, parts) in [
        (
            "show",
            vec![
                "0 8 * * 1 (Europe/Paris)",
                "\"message\": \"Water the plants\"",
            ],
        ),
        ("history", vec!["It has not run yet."]),
        ("pause", vec!["is paused"]),
        ("resume", vec!["runs again. Next run: Mon "]),
        ("remove", vec!["Removed job"]),
    ] {
        let run = home.run(&["cron", command, id]).await;
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
        assert_says(&run.stdout, &parts);
    }
    assert_eq!(
        home.run(&["cron", "list", "--all"]).await.stdout,
        "No scheduled jobs.\n"
    );
    for (arguments, part) in [
        (["--cron", "61 * * * *"], "is not a valid minute"),
        (["--at", "2020-01-01T00:00"], "has passed: it is now"),
        (["--at", "soon"], "is not a time"),
        (["--every", "0"], "at least one second"),
        (["--every", "-5"], "at least one second"),
        (["--in", "-5"], "at least one second"),
        (["--in", "a while"], "is not an interval"),
        (["--in", "999999999999d"], "too long"),
        (["--cron", "0 9 30 2 *"], "would never run"),
    ] {
        let refused = home
            .run(
                &[
                    ["cron", "add", "-m", "x"],
                    [arguments[0], arguments[1], "--name", "y"],
                ]
                .concat(),
            )
            .await;
        assert_eq!(refused.code, 2, "{arguments:?}");
        assert_says(&refused.stderr, &[part, "try: "]);
    }
    let empty = home.run(&["cron", "add", "-m", " ", "--every", "60"]).await;
    assert_eq!(empty.code, 2);
    assert_says(&empty.stderr, &["the message is empty", "try: "]);
    assert_eq!(
        home.run(&[
            "cron",
            "add",
            "-m",
            "x",
            "--every",
            "60",
            "--tz",
            "Asia/Tokyo"
        ])
        .await
        .code,
        2
    );
}

#[tokio::test]
async fn chat_of_a_job_is_never_empty() {
    let home = Home::new();
    for (channel, to) in [("", ""), ("", "7"), ("telegram", "")] {
        let chat = ["--channel", channel, "--to", to];
        let add = ["cron", "add", "-m", "x", "--every", "60"];
        let refused = home.run(&[&add[..], &chat].concat()).await;
        assert_eq!(refused.code, 2, "{chat:?}");
        assert_says(&refused.stderr, &["a value is required"]);
    }
}

#[tokio::test]
async fn unreadable_jobs_stay_as_they_are() {
    let home = Home::new();
    home.write("cron/jobs.json", "[");
    assert_says(
        &home.run(&["cron", "list"]).await.stderr,
        &["cannot be read as jobs", "nothing was changed"],
    );
    assert_eq!(home.read("cron/jobs.json"), "[");
}

#[tokio::test]
async fn cron_add_prints_next_run_zone_and_limitations() {
    let home = Home::new();
    let add = [
        "cron",
        "add",
        "-m",
        "call",
        "--at",
        "2099-01-01T09:00",
        "--tz",
        "Asia/Tokyo",
    ];
    let added = home.run(&add).await;
    assert_says(
        &added.stdout,
        &["Next run: Thu 2099-01-01 09:00 Asia/Tokyo. Its answer is not sent."],
    );
    assert_says(
        &added.stderr,
        &[
            "`--deliver` with `--channel` and `--to`",
            "No gateway runs now. Only `nanobot gateway` or an open prompt (`nanobot agent`) fires it.",
        ],
    );
    assert!(!added.stderr.contains("It runs every"), "{}", added.stderr);
    let often = home
        .run(&["cron", "add", "-m", "look", "--every", "5s"])
        .await;
    assert_eq!(often.code, 0, "{}", often.stderr);
    assert_says(
        &often.stderr,
        &["It runs every 5 s; each run is a turn that the model is paid for."],
    );
    let hourly = home
        .run(&["cron", "add", "-m", "look", "--every", "every 1h"])
        .await;
    assert_eq!(hourly.code, 0, "{}", hourly.stderr);
    assert_says(
        &home.run(&["cron", "list"]).await.stdout,
        &["every 3600 s", "every 5 s"],
    );
    let long = home
        .run(&["cron", "add", "-m", &"x".repeat(8001), "--every", "1h"])
        .await;
    assert_eq!(long.code, 2);
    assert_says(
        &long.stderr,
        &["the message of a job has at most 8000 characters", "try: "],
    );
    let delivered = home
        .run(
            &[
                &add[..],
                &["--deliver", "--channel", "pigeons", "--to", "1"],
            ]
            .concat(),
        )
        .await;
    assert_eq!(delivered.code, 0, "{}", delivered.stderr);
    assert_says(&delivered.stdout, &["Its answer goes to pigeons:1."]);
    assert_says(
        &delivered.stderr,
        &[
            "No channel called `pigeons` is enabled here",
            "No gateway runs now. Only `nanobot gateway` fires it.",
        ],
    );
    for (job, expected) in [
        (
            &added,
            "`nanobot gateway` or an open prompt (`nanobot agent`)",
        ),
        (&delivered, "`nanobot gateway`"),
    ] {
        let (_, rest) = job.stdout.split_once("(id: ").unwrap();
        let (id, _) = rest.split_once(')').unwrap();
        assert_eq!(
            home.run(&["cron", "run", id]).await.stdout,
            format!("Job {id} runs as soon as {expected} of this home sees it.\n")
        );
    }
}

#[tokio::test]
async fn cron_add_accepts_times_in_words() {
    let home = Home::new();
    home.configure(&json!({"cron": {"timezone": "Asia/Tokyo"}}));
    let to_terminal = ["--deliver", "--channel", "cli", "--to", "direct"];
    for (option, value, kind) in [
        ("--every", "10m", "every"),
        ("--in", "20m", "at"),
        ("--at", "tomorrow 9:00", "at"),
    ] {
        let add = ["cron", "add", "-m", "call", option, value];
        let added = home.run(&[&add[..], &to_terminal].concat()).await;
        assert_eq!(added.code, 0, "{option}: {}", added.stderr);
        assert_says(&added.stdout, &["Its answer goes to cli:direct."]);
        assert!(
            !added.stderr.contains("No channel called"),
            "{}",
            added.stderr
        );
        let jobs: Value = serde_json::from_str(&home.read("cron/jobs.json")).unwrap();
        let last = jobs["jobs"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["schedule"]["kind"], kind, "{value}");
    }
    assert_says(
        &home.run(&["cron", "list"]).await.stdout,
        &[
            "every 600 s",
            " 09:00 Asia/Tokyo",
            "Its answer goes to cli:direct.",
        ],
    );
    let both = ["cron", "add", "-m", "call", "--in", "20m", "--at", "18:00"];
    assert_eq!(home.run(&both).await.code, 2);
}

#[tokio::test]
async fn invalid_jobs_are_listed_with_reason_and_can_be_paused() {
    let home = Home::new();
    let file = json!({"version": 1, "jobs": [
        {"id": "0a1b2c3d", "name": "far away", "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "Mars/Base"}},
        {"id": "has no schedule"},
        {"id": "0a1b2c3e", "name": "hourly", "enabled": true,
         "schedule": {"kind": "every", "everyMs": 3_600_000, "tz": "Asia/Tokyo"}},
    ]});
    home.write("cron/jobs.json", &file.to_string());
    let listed = home.run(&["cron", "list"]).await;
    assert_says(
        &listed.stdout,
        &["0 9 * * * (Mars/Base). It cannot run: unknown timezone 'Mars/Base'."],
    );
    assert_says(&listed.stderr, &["1 of its entries cannot be read as jobs"]);
    assert_says(
        &home.run(&["doctor"]).await.stdout,
        &[
            "1 job cannot be read and will not run",
            "the job 'far away' cannot run: unknown timezone 'Mars/Base'",
            "the job 'hourly': schedule.tz has no effect with the kind 'every'",
        ],
    );
    assert_eq!(home.run(&["cron", "resume", "0a1b2c3d"]).await.code, 1);
    let paused = home.run(&["cron", "pause", "0a1b2c3d"]).await;
    assert_eq!(
        (paused.code, paused.stdout.as_str()),
        (0, "Job 0a1b2c3d is paused.\n")
    );
    assert!(
        !home
            .run(&["cron", "list"])
            .await
            .stdout
            .contains("far away")
    );
    let jobs: Value = serde_json::from_str(&home.read("cron/jobs.json")).unwrap();
    assert_eq!(jobs["jobs"][1], file["jobs"][1]);
}

#[tokio::test]
async fn tz_variable_is_the_default_zone_of_jobs() {
    let home = Home::new();
    let mut program = home.program();
    program
        .env("TZ", "Asia/Tokyo")
        .args(["cron", "add", "-m", "call", "--at", "2099-01-01T09:00"]);
    let added = finish(program, b"").await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    assert_says(&added.stdout, &["2099-01-01 09:00 Asia/Tokyo"]);
}

#[tokio::test]
async fn cron_zone_defaults_to_the_agent_zone() {
    let home = Home::new();
    let add = ["cron", "add", "-m", "call", "--at", "2099-01-01T09:00"];
    home.configure(&json!({"agents": {"defaults": {"timezone": "Asia/Tokyo"}}}));
    assert_says(
        &home.run(&add).await.stdout,
        &["2099-01-01 09:00 Asia/Tokyo"],
    );
    home.configure(&json!({"agents": {"defaults": {"timezone": "Asia/Tokyo"}}, "cron": {"timezone": "Europe/Paris"}}));
    assert_says(
        &home.run(&add).await.stdout,
        &["2099-01-01 09:00 Europe/Paris"],
    );
}

#[tokio::test]
async fn reminder_is_sent_to_its_chat_and_adds_no_job() {
    let model = ModelServer::answering(|request| {
        let asked = request.last_user_text();
        let answers = request
            .messages()
            .iter()
            .rev()
            .take_while(|message| message["role"] == "tool")
            .count();
        match (asked.contains("[Scheduled task]"), answers) {
            (true, 0) => Reply::call(
                "cron",
                &json!({"action": "add", "message": "again", "every_seconds": 1}),
            ),
            (true, _) => Reply::text("Drink water!"),
            (false, 0) => Reply::call(
                "cron",
                &json!({"action": "add", "message": "drink", "every_seconds": 5}),
            ),
            (false, _) => Reply::text("I will."),
        }
    });
    let model = model.await.unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "cron": {"minIntervalSeconds": 1},
        "channels": {"telegram": {
            "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["*"],
        }},
    }));
    let gateway = Running::start(&home).await;
    telegram.push(Incoming::private(
        &Person::new(7, "Ann", "ann_x"),
        "remind me to drink",
    ));
    until("the reminder comes", async || {
        telegram
            .texts_in(7)
            .iter()
            .any(|told| told == "Drink water!")
    })
    .await;
    let jobs =
        || serde_json::from_str::<Value>(&home.read("cron/jobs.json")).unwrap()["jobs"].clone();
    until("the run is over", async || {
        jobs()[0]["state"]["lastStatus"] == "ok"
    })
    .await;
    let id = jobs()[0]["id"].as_str().unwrap().to_owned();
    home.run(&["cron", "remove", &id]).await;
    assert_eq!(jobs(), json!([]), "a job added no other job");
    // A job without delivery, run by hand.
    home.run(&["cron", "add", "-m", "quietly", "--at", "2099-01-01"])
        .await;
    let id = jobs()[0]["id"].as_str().unwrap().to_owned();
    home.run(&["cron", "run", &id]).await;
    until("it ran", async || jobs()[0]["state"]["lastStatus"] == "ok").await;
    assert_says(
        &home.run(&["cron", "history", &id]).await.stdout,
        &["  ok ("],
    );
    assert_eq!(jobs()[0]["enabled"], json!(true));
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

fn jobs_of(home: &Home) -> Value {
    serde_json::from_str::<Value>(&home.read("cron/jobs.json")).unwrap()["jobs"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_fires_reminders_for_the_terminal_only() {
    let model = ModelServer::answering(|request| {
        let is_due = request.last_user_text().contains("[Scheduled task]");
        let has_called = request.messages().last().unwrap()["role"] == "tool";
        match (is_due, has_called) {
            (true, _) => Reply::text("Drink water!"),
            (false, false) => Reply::call(
                "cron",
                &json!({"action": "add", "message": "drink", "at": "in 1s"}),
            ),
            (false, true) => Reply::text("I will."),
        }
    });
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    let add = ["cron", "add", "-m", "call", "--in", "1s", "--deliver"];
    let added = home
        .run(&[&add[..], &["--channel", "telegram", "--to", "7"]].concat())
        .await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    let mut screen = Screen::open(&home, &["agent"]);
    screen.wait_for("You: ");
    screen.type_in("remind me to drink\r");
    screen.wait_for("It fires while this prompt is open");
    screen.wait_for("Drink water!");
    until("the run is over", async || {
        jobs_of(&home).as_array().unwrap().len() == 1
    })
    .await;
    screen.type_in("exit\r");
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    let left = &jobs_of(&home)[0];
    assert_eq!(
        (&left["enabled"], &left["payload"]["channel"]),
        (&json!(true), &json!("telegram"))
    );
    let told = model.requests().iter().any(|request| {
        let texts = request.messages().iter().map(ToString::to_string);
        texts
            .collect::<String>()
            .contains("(or its service) fires it")
    });
    assert!(told, "the model is told who fires the job");
}

#[tokio::test(flavor = "multi_thread")]
async fn result_that_no_terminal_showed_is_shown_at_the_next_prompt() {
    let model = ModelServer::answering(|_| Reply::text("Drink water!"))
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let add = ["cron", "add", "-m", "drink", "--in", "1s", "--deliver"];
    let added = home
        .run(&[&add[..], &["--channel", "cli", "--to", "direct"]].concat())
        .await;
    assert_eq!(added.code, 0, "{}", added.stderr);
    let gateway = Running::start(&home).await;
    until("the result is kept", async || {
        home.names("cron")
            .iter()
            .any(|name| name == "jobs.json.unseen")
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    for expected in [true, false] {
        let mut screen = Screen::open(&home, &["agent"]);
        if expected {
            screen.wait_for("⏰ Job drink · ");
            screen.wait_for("Drink water!");
        }
        screen.wait_for("You: ");
        screen.type_in("exit\r");
        assert_eq!(screen.end(), Some(0), "{}", screen.text);
        let has_shown = screen.text.contains("Drink water!");
        assert_eq!(has_shown, expected, "{}", screen.text);
    }
}
