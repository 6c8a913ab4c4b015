//! Memory at the command line: search, versions, restore, and divided memory.

use nanobot_channel_telegram_fake::{FileKind, Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::model_server::ModelRequest;
use nanobot_testkit::{ModelServer, Reply, ScriptedCall};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::support::{Home, assert_says, until};

#[tokio::test]
async fn memory_changes_are_searchable_and_restorable() {
    let write = |text: &str| {
        Reply::call(
            "write_file",
            &json!({"path": "memory/MEMORY.md", "content": text}),
        )
    };
    let replies = [
        write("# Facts\n- 住在北京很久\n"),
        Reply::text("记住了。"),
        write("oops\n"),
        Reply::text("Done."),
    ];
    let model = ModelServer::scripted(replies).await.unwrap();
    let home = Home::with_model(&model.base_url());
    for text in ["我住在北京", "and now break it"] {
        let run = home.run(&["agent", "-m", text]).await;
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    let log = home.run(&["memory", "log"]).await.stdout;
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    for (line, number) in lines.iter().zip(["2", "1"]) {
        assert_says(
            line,
            &[number, "MEMORY.md", "written in a turn of cli:direct"],
        );
    }
    assert_says(
        &home.run(&["memory", "show", "2"]).await.stdout,
        &["-# Facts", "-- 住在北京很久", "+oops"],
    );
    assert_eq!(home.run(&["memory", "restore", "1"]).await.code, 0);
    assert_eq!(
        home.read("workspace/memory/MEMORY.md"),
        "# Facts\n- 住在北京很久\n"
    );
    assert_says(
        &home.run(&["memory", "log"]).await.stdout,
        &["3 ", "version 1 brought back"],
    );
    let unknown = home.run(&["memory", "restore", "9"]).await;
    assert_eq!(unknown.code, 1);
    assert_says(&unknown.stderr, &["no version 9", "nanobot memory log"]);

    let found = home.run(&["memory", "search", "北京"]).await.stdout;
    assert_says(
        &found,
        &[
            "memory/MEMORY.md:2",
            "住在北京很久",
            "cli:direct message 1, user",
            "我住在北京",
        ],
    );
    home.write("index.db", "no index at all");
    let found: Value = serde_json::from_str(
        &home
            .run(&["memory", "search", "--json", "break"])
            .await
            .stdout,
    )
    .unwrap();
    assert_eq!(found["memory"], json!([]));
    assert_eq!(
        (
            &found["sessions"][0]["session"],
            &found["sessions"][0]["excerpt"]
        ),
        (&json!("cli:direct"), &json!("and now break it"))
    );
    assert_says(
        &home.run(&["memory", "search", "zanzibar"]).await.stdout,
        &["Nothing was found."],
    );
}

#[tokio::test]
async fn model_searches_memory_and_sessions() {
    let replies = [
        Reply::text("Noted."),
        Reply::call("memory_search", &json!({"query": "tower"})),
        Reply::call("session_search", &json!({"query": "zanzibar"})),
        Reply::text("In May."),
    ];
    let model = ModelServer::scripted(replies).await.unwrap();
    let home = Home::with_model(&model.base_url());
    home.write(
        "workspace/memory/HISTORY.md",
        "[2026-03-15 14:30] saw the Tokyo Tower\n\n",
    );
    home.run(&["agent", "-s", "old", "-m", "we fly to Zanzibar in May"])
        .await;
    let run = home.run(&["agent", "-m", "when do we fly?"]).await;
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "In May.\n"),
        "{}",
        run.stderr
    );
    let results = results(model.requests().last().unwrap());
    assert_eq!(
        results[0],
        "1 place found:\n- memory/HISTORY.md:1: [2026-03-15 14:30] saw the Tokyo Tower\n\
         Read on with read_file, for example {\"offset\":1,\"path\":\"memory/HISTORY.md\"}."
    );
    assert_says(
        &results[1],
        &[
            "1 place found:",
            "- sessions/cli_old.jsonl:3 (cli:old, message 1, user",
            "Zanzibar in May",
        ],
    );
}

/// Returns the results of tools since the last message of the user.
fn results(request: &ModelRequest) -> Vec<String> {
    let messages = request.messages();
    let last = messages
        .iter()
        .rposition(|message| message["role"] == "user")
        .unwrap_or(0);
    let results = messages[last..]
        .iter()
        .filter(|message| message["role"] == "tool");
    results
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the system prompt of the last request that has this text in its newest message.
fn prompt_of(model: &ModelServer, said: &str) -> String {
    let requests = model.requests();
    requests
        .iter()
        .rfind(|request| request.last_user_text().contains(said))
        .expect(said)
        .system()
}

#[expect(
    clippy::too_many_lines,
    reason = "one table or story, read from top to bottom"
)]
#[tokio::test]
async fn private_facts_stay_with_their_person() {
    let model = ModelServer::answering(|request| {
        let asked = request.last_user_text();
        match results(request).len() {
            0 if asked.contains("remember") => {
                Reply::call("remember", &json!({"fact": "PIN is 4711"}))
            }
            0 if asked.contains("search") => {
                Reply::call("session_search", &json!({"query": "PIN remember"}))
            }
            1 if asked.contains("search") => {
                Reply::call("memory_search", &json!({"query": "PIN is"}))
            }
            2 if asked.contains("search") => Reply::call(
                "read_file",
                &json!({"path": "memory/people/telegram_3a7/MEMORY.md"}),
            ),
            _ => Reply::text("Done."),
        }
    });
    let model = model.await.unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "memory": {"scopes": true},
        "channels": {"telegram": {
            "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["*"], "groupPolicy": "open",
        }},
    }));
    home.write("workspace/memory/MEMORY.md", "- we all like tea\n");
    let gateway = Running::start(&home).await;
    let (ann, bob) = (
        Person::new(7, "Ann", "ann_x"),
        Person::new(8, "Bob", "bob_x"),
    );
    let answered = async |chat: i64, text: &str| {
        let told = async || telegram.texts_in(chat).iter().any(|told| told == text);
        until(&format!("{text} is told to {chat}"), told).await;
    };
    telegram.push(Incoming::private(&ann, "remember my PIN"));
    answered(7, "Done.").await;
    telegram.push(Incoming::private(&ann, "/new"));
    answered(7, "New session started.").await;
    telegram.push(Incoming::private(&ann, "ann asks"));
    telegram.push(Incoming::private(&bob, "bob asks: search"));
    answered(8, "Done.").await;
    telegram.push(Incoming::group(-100, &ann, "group asks: search"));
    answered(-100, "Done.").await;
    let asked = async || {
        model
            .requests()
            .iter()
            .any(|request| request.last_user_text().contains("ann asks"))
    };
    until("the model is asked", asked).await;
    let anns = prompt_of(&model, "ann asks");
    assert_says(
        &anns,
        &[
            "# Private Memory of telegram:7",
            "- PIN is 4711",
            "- we all like tea",
        ],
    );
    for (said, title) in [
        ("bob asks", "# Private Memory of telegram:8"),
        ("group asks", "# Memory of This Group"),
    ] {
        let prompt = prompt_of(&model, said);
        assert_says(&prompt, &[title, "- we all like tea"]);
        assert!(!prompt.contains("4711"), "{said}: {prompt}");
        let requests = model.requests();
        let last = requests
            .iter()
            .rfind(|request| request.last_user_text().contains(said))
            .unwrap();
        let results = results(last);
        assert_eq!(results.len(), 3, "{results:?}");
        assert!(
            results
                .iter()
                .all(|result| !result.contains("4711") && !result.contains("my PIN")),
            "{results:?}"
        );
        assert_says(&results[2], &["Error"]);
    }
    assert_eq!(
        home.read("workspace/memory/MEMORY.md"),
        "- we all like tea\n"
    );
    let log = home
        .run(&["memory", "log", "--person", "telegram:7"])
        .await
        .stdout;
    assert_says(
        &log,
        &["1 ", "MEMORY.md", "written in a turn of telegram:7"],
    );
    assert_says(
        &home.run(&["memory", "search", "4711"]).await.stdout,
        &["people/telegram_3a7/MEMORY.md:1"],
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn day_notes_are_rolled_up_if_configured() {
    let model = ModelServer::answering(|_| Reply::text("Hi."))
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let mut config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
    config["memory"] = json!({"rollUpMonthly": true});
    home.configure(&config);
    home.write("workspace/memory/2026-01-05.md", "- old\n");
    assert_eq!(home.run(&["agent", "-m", "hi"]).await.code, 0);
    assert_eq!(
        home.names("workspace/memory"),
        [".versions", "2026-01.md", "HISTORY.md", "MEMORY.md"]
    );
    home.write("workspace/memory/2026-01-06.md", "- older than a gateway\n");
    let gateway = Running::start(&home).await;
    let expected = "## 2026-01-05\n\n- old\n\n## 2026-01-06\n\n- older than a gateway\n";
    let merged = async || {
        let text =
            std::fs::read_to_string(home.workspace().join("memory/2026-01.md")).unwrap_or_default();
        text == expected && !home.workspace().join("memory/2026-01-06.md").exists()
    };
    until("the note is in its month", merged).await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

/// Returns the text between two words in a request.
fn between(text: &str, before: &str, after: &str) -> String {
    let (_, rest) = text.rsplit_once(before).expect(text);
    rest.split(after)
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns a home whose memory is divided and whose tools may go everywhere else.
fn divided_home(model: &ModelServer, telegram: &TelegramFake) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {
            "model": "test-model", "provider": "custom", "maxToolResultChars": 400, "parseCallsFromText": false,
        }},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "memory": {"scopes": true},
        "tools": {"restrictToWorkspace": false},
        "channels": {"telegram": {
            "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["*"],
        }},
    }));
    home
}

#[expect(
    clippy::too_many_lines,
    reason = "one table or story, read from top to bottom"
)]
#[tokio::test]
async fn files_results_and_jobs_of_other_people_are_denied() {
    const CANARY: &str = "CANARY-7f3a";
    let model = ModelServer::scripted([]).await.unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let home = divided_home(&model, &telegram);
    let gateway = Running::start(&home).await;
    let (ann, bob) = (
        Person::new(7, "Ann", "ann_x"),
        Person::new(8, "Bob", "bob_x"),
    );
    // Runs one turn of calls and returns their results.
    let turn = async |incoming: Incoming, chat: i64, calls: &[(&str, Value)], reply: &str| {
        let calls = calls
            .iter()
            .map(|(name, arguments)| ScriptedCall::new(*name, arguments));
        model.push(Reply::calls(calls.collect::<Vec<_>>()));
        model.push(Reply::text(reply));
        telegram.push(incoming);
        until(reply, async || {
            telegram.texts_in(chat).iter().any(|told| told == reply)
        })
        .await;
        model.requests().pop().unwrap()
    };

    let long = format!("for n in $(seq 1 200); do echo line $n {CANARY}; done");
    let file = Incoming::private(&ann, "keep this").with_file(
        FileKind::Document,
        "diary.txt",
        "text/plain",
        format!("my diary {CANARY}"),
    );
    let calls = [
        ("exec", json!({"command": long})),
        (
            "cron",
            json!({"action": "add", "message": format!("call the doctor {CANARY}"), "at": "2099-01-01T10:00"}),
        ),
        ("cron", json!({"action": "list"})),
    ];
    let anns = turn(file, 7, &calls, "Kept.").await;
    let own = results(&anns);
    let kept = between(&own[0], "kept in ", ". To read on");
    let job = between(&own[1], "(id: ", ")");
    let media = home.names("media/telegram");
    assert_eq!(media.len(), 1, "{media:?}");
    let received = home
        .path()
        .join("media/telegram")
        .join(&media[0])
        .display()
        .to_string();
    assert!(
        anns.json.to_string().contains(&media[0]),
        "the model knows its name"
    );

    let prompts = home
        .path()
        .join("prompts")
        .join(&home.names("prompts")[0])
        .display()
        .to_string();

    let folder = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
    let calls = [
        ("cron", json!({"action": "list"})),
        ("cron", json!({"action": "remove", "job_id": job})),
        ("list_dir", json!({"path": folder(&received)})),
        (
            "list_dir",
            json!({"path": home.path().join("media"), "recursive": true}),
        ),
        ("list_dir", json!({"path": folder(&kept)})),
        ("list_dir", json!({"path": home.path(), "recursive": true})),
        (
            "read_file",
            json!({"path": folder(&received) + "/diary.txt"}),
        ),
        (
            "read_file",
            json!({"path": home.path().join("cron/jobs.json")}),
        ),
        (
            "read_file",
            json!({"path": home.workspace().join("sessions/telegram_7.jsonl")}),
        ),
        (
            "read_file",
            json!({"path": home.path().join("logs/audit.log")}),
        ),
        ("read_file", json!({"path": prompts})),
        ("list_dir", json!({"path": folder(&prompts)})),
        ("write_file", json!({"path": received, "content": ""})),
        ("write_file", json!({"path": kept, "content": ""})),
        (
            "edit_file",
            json!({"path": received, "old_text": "diary", "new_text": ""}),
        ),
    ];
    let bobs = results(
        &turn(
            Incoming::private(&bob, "what has Ann?"),
            8,
            &calls,
            "Nothing.",
        )
        .await,
    );
    assert_eq!(bobs.len(), calls.len(), "{bobs:?}");
    for (result, call) in bobs.iter().zip(&calls) {
        let is_told = [CANARY, &job, &media[0], kept.rsplit('/').next().unwrap()]
            .iter()
            .any(|word| result.contains(word));
        // A refusal repeats the path of the call.
        assert!(
            !is_told || result.starts_with("Error"),
            "{call:?}: {result}"
        );
        assert!(!result.contains(CANARY), "{call:?}: {result}");
        assert!(
            result.starts_with("Error") || ["cron", "list_dir"].contains(&call.0),
            "{call:?}: {result}"
        );
    }

    // Ann's data is still there, and she can read and remove it.
    // The file may be by another person: after reading it, the turn asks before it removes.
    let calls = [
        ("cron", json!({"action": "list"})),
        ("cron", json!({"action": "remove", "job_id": job})),
        ("read_file", json!({"path": received})),
        ("read_file", json!({"path": kept, "limit": 3})),
    ];
    let anns = results(
        &turn(
            Incoming::private(&ann, "and mine?"),
            7,
            &calls,
            "All there.",
        )
        .await,
    );
    assert_eq!(anns.len(), calls.len(), "{anns:?}");
    for (result, part) in anns
        .iter()
        .zip([job.as_str(), job.as_str(), CANARY, CANARY])
    {
        assert!(
            result.contains(part) && !result.starts_with("Error"),
            "{part}: {result}"
        );
    }
    assert_eq!(model.violations(), Vec::<String>::new());
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}
