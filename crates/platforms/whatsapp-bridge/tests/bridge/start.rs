//! The start of a bridge, and who may start it.

use std::path::Path;

use nanobot_testkit::log::Log;
use nanobot_whatsapp_bridge::BridgeError;

use crate::fixture::{Computer, WORKING, mode, variable_names};

const ADDRESS: &str = r#"echo '{"listening":"ws://127.0.0.1:40123","protocol":2}'"#;

#[tokio::test]
async fn installed_package_is_started_and_stopped() {
    let computer = Computer::new();
    let bridge = computer.bridge();
    bridge.install(&|_| ()).await.unwrap();
    let running = bridge.start().await.unwrap();
    assert_eq!(running.url(), "ws://127.0.0.1:40123");
    let token = running.token().to_owned();
    assert_eq!(token.len(), 64);
    assert!(!format!("{running:?}").contains(&token));
    assert_eq!(
        computer.read("bridge-arguments"),
        "--max-old-space-size=512 index.js\n"
    );
    let folder = computer.read("bridge-folder");
    assert_eq!(
        Path::new(folder.trim_end()),
        running.folder().canonicalize().unwrap()
    );
    running.stop().await;
    assert_eq!(computer.read("bridge-end"), "closed\n");
}

#[tokio::test]
async fn bridge_gets_few_variables_and_private_folders() {
    let computer = Computer::new();
    let running = computer.script(WORKING).start().await.unwrap();
    let environment = computer.read("bridge-environment");
    assert_eq!(
        variable_names(&environment),
        [
            "AUTH_DIR",
            "BRIDGE_DIR",
            "BRIDGE_PORT",
            "BRIDGE_SUPERVISED",
            "BRIDGE_TOKEN",
            "HOME",
            "HTTPS_PROXY",
            "LANG",
            "PATH"
        ]
    );
    let value = |name: &str| {
        let line = environment
            .lines()
            .find_map(|line| line.split_once('=').filter(|(n, _)| *n == name));
        line.unwrap().1.to_owned()
    };
    assert_eq!(value("BRIDGE_PORT"), "0");
    assert_eq!(value("BRIDGE_SUPERVISED"), "1");
    assert_eq!(value("BRIDGE_TOKEN"), running.token());
    let keys = computer.data().join("whatsapp-auth");
    assert_eq!(Path::new(&value("AUTH_DIR")), keys);
    for folder in [keys, value("BRIDGE_DIR").into()] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    running.stop().await;
}

#[tokio::test]
async fn missing_package_is_not_started() {
    let computer = Computer::new();
    let Err(BridgeError::Install(text)) = computer.bridge().start().await else {
        panic!("it was started");
    };
    assert!(text.contains("nanobot channels login"), "{text}");
}

#[tokio::test]
async fn one_program_at_a_time_runs_the_bridge_of_an_account() {
    let computer = Computer::new();
    let (own, second) = (computer.script(WORKING), computer.script(WORKING));
    let other_account = computer.script_of(WORKING, Some("work"));
    let running = own.start().await.unwrap();
    assert!(matches!(second.start().await, Err(BridgeError::InUse)));
    let other = other_account.start().await.unwrap();
    assert_ne!(other.token(), running.token());
    running.stop().await;
    let again = second.start().await.unwrap();
    drop(again);
    own.start().await.unwrap().stop().await;
    other.stop().await;
}

#[tokio::test]
async fn account_is_noted_while_a_program_runs_the_bridge() {
    let computer = Computer::new();
    let running = computer.script(WORKING).start().await.unwrap();
    let (gateway, probe) = (computer.script(WORKING), computer.script(WORKING));
    assert_eq!(probe.account_note().await, None);
    gateway.note_account("Ann (4915112345678)").await.unwrap();
    assert_eq!(
        probe.account_note().await.as_deref(),
        Some("Ann (4915112345678)")
    );
    assert_eq!(
        computer
            .script_of(WORKING, Some("work"))
            .account_note()
            .await,
        None
    );
    running.stop().await;
}

#[tokio::test]
async fn failed_starts_are_explained() {
    let cases = [
        ("echo hello; cat", "wrote something else than its address"),
        (
            r#"printf '{"listening":"ws://127.0.0.1:1","protocol":3}\n'; cat"#,
            "version 3",
        ),
        (
            r#"printf '{"listening":"ws://0.0.0.0:1","protocol":2}\n'; cat"#,
            "loopback",
        ),
        (
            "head -c 1000000 /dev/zero | tr '\\0' x; echo; cat",
            "something else",
        ),
        (
            "echo 'no AUTH_DIR' >&2; exit 2",
            "refused its settings (exit code 2):\nno AUTH_DIR",
        ),
        ("kill -9 $$", "was killed (signal: 9 (SIGKILL))"),
        (
            "echo broken >&2; exec >&-; cat >/dev/null",
            "closed its output:\nbroken",
        ),
        ("exit 0", "the WhatsApp bridge ended with exit code 0"),
    ];
    for (script, part) in cases {
        let computer = Computer::new();
        let error = computer.script(script).start().await.unwrap_err();
        assert!(matches!(error, BridgeError::Process(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(part), "{script}: {text}");
        assert!(text.len() < 2_000, "{text}");
        // The account is free again.
        computer.script(WORKING).start().await.unwrap().stop().await;
    }
}

#[tokio::test]
async fn missing_program_is_explained() {
    let computer = Computer::new();
    let missing = computer.path("missing");
    let none: [&str; 0] = [];
    let bridge = nanobot_whatsapp_bridge::Bridge::of_program(missing, none, &computer.data(), None);
    assert!(!bridge.is_installed().await);
    let text = bridge.start().await.unwrap_err().to_string();
    assert!(
        text.starts_with("the WhatsApp bridge cannot be started: "),
        "{text}"
    );
}

// The clock is paused: it jumps to the limit, as nothing else happens.
#[tokio::test(start_paused = true)]
async fn silent_bridge_is_given_up() {
    let computer = Computer::new();
    let text = computer
        .script("cat")
        .start()
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(text, "the WhatsApp bridge did not start within 30 seconds");
}

#[tokio::test]
async fn token_is_neither_logged_nor_in_errors() {
    let log = Log::capture().unwrap();
    let computer = Computer::new();
    let script =
        format!("{ADDRESS}; echo \"on the screen: $BRIDGE_TOKEN $HTTPS_PROXY\" >&2; exit 1");
    let mut running = computer.script(&script).start().await.unwrap();
    let token = running.token().to_owned();
    let error = running.ended().await;
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("exit code 1") && text.contains("on the screen"),
        "{text}"
    );
    let log = log.text();
    assert!(log.contains("on the screen"), "{log}");
    for text in [text, log, format!("{running:?}")] {
        assert!(!text.contains(&token), "{text}");
        assert!(!text.contains("pine4pple"), "{text}");
    }
}
