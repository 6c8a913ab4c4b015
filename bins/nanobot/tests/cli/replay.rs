//! Replays of recorded conversations: from the workspace, and from a bundle elsewhere.

use crate::support::{Home, assert_says};

/// Returns a home in which the demo looked for files and then said hello.
async fn home_with_two_turns() -> Home {
    let home = Home::new();
    for text in ["what files are here?", "hello"] {
        let run = home.run(&["agent", "--demo", "-m", text]).await;
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    home
}

#[tokio::test]
async fn replay_of_a_recorded_session_is_identical() {
    let home = home_with_two_turns().await;
    let before = home.read("workspace/sessions/cli_direct.jsonl");
    let files = (home.names("."), home.names("workspace"));
    let run = home.run(&["replay", "cli:direct"]).await;
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    assert_eq!(
        run.stdout,
        "turn 1: identical (5 steps)\nturn 2: identical (3 steps)\n"
    );
    let run = home.run(&["replay", "direct", "2"]).await;
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (0, "turn 2: identical (3 steps)\n")
    );
    assert_eq!(home.read("workspace/sessions/cli_direct.jsonl"), before);
    assert_eq!((home.names("."), home.names("workspace")), files);
}

#[tokio::test]
async fn changed_record_diverges_and_exits_1() {
    let home = home_with_two_turns().await;
    let log = home.read("workspace/sessions/cli_direct.jsonl");
    let visible = log.rfind("\"visible\":\"").expect(&log);
    let (before, after) = log.split_at(visible + "\"visible\":\"".len());
    home.write(
        "workspace/sessions/cli_direct.jsonl",
        &format!("{before}Ahem. {after}"),
    );
    let run = home.run(&["replay", "direct"]).await;
    assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{}", run.stdout);
    assert_says(
        &run.stdout,
        &[
            "turn 1: identical (5 steps)\nturn 2 (",
            "diverges at step 3, visible text\n  recorded: \"Ahem. ",
            "\n  now:      \"",
        ],
    );
}

#[tokio::test]
async fn bundle_replays_in_another_home() {
    let home = home_with_two_turns().await;
    let file = home.path().join("turns.json");
    let name = file.to_str().unwrap();
    let run = home.run(&["replay", "direct", "--bundle", name]).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_says(
        &run.stderr,
        &["turns.json", "read it before you pass it on"],
    );
    let bundle = home.read("turns.json");
    assert_says(
        &bundle,
        &[
            "\"format\": 1",
            env!("CARGO_PKG_VERSION"),
            "what files are here?",
            "list_dir",
        ],
    );
    let folder = home.path();
    assert!(
        !bundle.contains(folder.parent().unwrap().to_str().unwrap()),
        "the home's path is redacted"
    );

    let elsewhere = Home::new();
    let both = "turn 1: identical (5 steps)\nturn 2: identical (3 steps)\n";
    for (arguments, code, told) in [
        (&["replay", "--from", name][..], 0, both),
        (&["replay", "direct", "--from", name], 0, both),
        (
            &["replay", "--from", name, "2"],
            0,
            "turn 2: identical (3 steps)\n",
        ),
        (
            &["replay", "cli:direct", "1", "--from", name],
            0,
            "turn 1: identical (5 steps)\n",
        ),
        (&["replay", "--from", name, "3"], 1, ""),
        (&["replay", "cli:other", "1", "--from", name], 2, ""),
    ] {
        let run = elsewhere.run(arguments).await;
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (code, told),
            "{arguments:?}: {}",
            run.stderr
        );
    }
    assert_eq!(
        elsewhere.names("."),
        Vec::<String>::new(),
        "a replay does not create a home"
    );
    let again = home.run(&["replay", "direct", "--bundle", name]).await;
    assert_eq!(again.code, 1);
    assert_says(&again.stderr, &["turns.json", "does not exist yet"]);
}

#[tokio::test]
async fn replay_errors_are_reported() {
    let home = home_with_two_turns().await;
    home.write("other.json", "{\"format\": 99}");
    let other = home.path().join("other.json");
    for (arguments, code, parts) in [
        (&["replay"][..], 2, &["SESSION"][..]),
        (&["replay", "nobody"], 1, &["`nobody`", "sessions list"]),
        (
            &["replay", "direct", "9"],
            1,
            &["no such turn", "numbered from 1"],
        ),
        (
            &["replay", "--from", "nothing.json"],
            1,
            &["nothing.json", "--bundle"],
        ),
        (
            &["replay", "--from", other.to_str().unwrap()],
            1,
            &["other.json", "format 99"],
        ),
        (
            &["replay", "direct", "--bundle", "a", "--from", "b"],
            2,
            &["cannot be used with"],
        ),
    ] {
        let run = home.run(arguments).await;
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (code, ""),
            "{arguments:?}: {}",
            run.stderr
        );
        assert_says(&run.stderr, parts);
    }
    assert_says(
        &home.run(&["replay", "--help"]).await.stdout,
        &["identical", "--bundle <FILE>", "--from <FILE>", "[TURN]"],
    );
}
