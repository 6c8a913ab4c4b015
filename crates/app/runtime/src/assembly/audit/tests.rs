//! Lines of the audit log, and their chain.

use std::fs;
use std::path::Path;

use nanobot_tool::ToolContext;
use nanobot_types::{
    InboundMessage, OutboundKey, OutboundKind, OutboundSlot, ToolCall, ToolResult,
};
use serde_json::json;

use super::chain::ChainEvent;
use super::verify::{AuditReport, verify};
use super::*;
use crate::assembly::rotating_file::LogSettings;

#[test]
fn audited_arguments_are_redacted_and_truncated() {
    let secrets = Secrets::new(["open sesame".to_owned()]);
    let long = "x".repeat(600);
    let truncate = format!("{}… (600 characters)", "x".repeat(500));
    for (arguments, expected) in [
        (
            json!({"path": "a", "n": 3}).to_string(),
            json!({"path": "a", "n": 3}),
        ),
        (
            json!({"command": "curl -H 'Authorization: Bearer abc'", "token": "t"}).to_string(),
            json!({"command": "curl -H 'Authorization: Bearer ***'", "token": "***"}),
        ),
        (
            json!({"open sesame": "say open sesame"}).to_string(),
            json!({"***": "say ***"}),
        ),
        (
            json!({"content": long}).to_string(),
            json!({"content": truncate}),
        ),
        ("{\"apiKey\": \"abc".to_owned(), json!("{\"apiKey\": \"***")),
        (String::new(), json!("")),
    ] {
        assert_eq!(
            redact_and_truncate(&arguments, &secrets),
            expected,
            "{arguments}"
        );
    }
    let many: Vec<String> = (0..1000).map(|number| format!("word {number}")).collect();
    let Value::String(text) = redact_and_truncate(&json!({"words": many}).to_string(), &secrets)
    else {
        panic!("not cut")
    };
    assert!(
        text.chars().count() < ARGUMENTS_LIMIT + 40 && text.ends_with(" characters)"),
        "{text}"
    );
}

fn log_at(path: PathBuf) -> AuditLog {
    let file = ChainedLog::new(path, LogSettings::default());
    AuditLog {
        file: Arc::new(Mutex::new(file)),
        is_failing: AtomicBool::new(false),
        secrets: Secrets::new(["open sesame".to_owned()]),
    }
}

async fn run(log: &AuditLog) {
    let call = ToolCall::new("1", "exec", r#"{"command":"ls"}"#);
    let context = ToolContext {
        sender: Some("ann".into()),
        ..ToolContext::detached("cli:direct")
    };
    let (result, elapsed) = (ToolResult::ok("hi"), Duration::from_millis(7));
    let effect = Some(Effect::Irreversible);
    log.ran(ToolRun {
        call: &call,
        effect,
        context: &context,
        result: &result,
        elapsed,
    })
    .await;
}

#[tokio::test]
async fn each_tool_run_is_one_audit_line() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("logs/audit.log");
    let log = log_at(path.clone());
    run(&log).await;
    run(&log).await;
    let text = fs::read_to_string(path).unwrap();
    let mut line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let time = line.as_object_mut().unwrap().remove("time").unwrap();
    let prev = line.as_object_mut().unwrap().remove("prev").unwrap();
    assert_eq!(prev, digest(text.lines().next().unwrap().as_bytes()));
    assert!(
        chrono::DateTime::parse_from_rfc3339(time.as_str().unwrap()).is_ok(),
        "{time}"
    );
    let expected = json!({
        "seq": 2, "event": "tool", "session": "cli:direct", "trace": "detached", "channel": "cli", "chat": "direct", "sender": "ann",
        "origin": {"kind": "user"}, "tool": "exec", "effect": "irreversible", "arguments": {"command": "ls"},
        "success": true, "duration_ms": 7,
        "output": {"bytes": 2, "sha256": "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"},
    });
    assert_eq!((line, text.lines().count()), (expected, 2));
}

#[tokio::test]
async fn unwritable_audit_log_recovers() {
    let home = tempfile::tempdir().unwrap();
    let blocked = home.path().join("logs");
    fs::write(&blocked, "in the way").unwrap();
    let log = log_at(blocked.join("audit.log"));
    run(&log).await;
    assert!(log.is_failing.load(Ordering::Relaxed));
    fs::remove_file(&blocked).unwrap();
    run(&log).await;
    assert!(!log.is_failing.load(Ordering::Relaxed));
    assert_eq!(
        fs::read_to_string(blocked.join("audit.log"))
            .unwrap()
            .lines()
            .count(),
        1
    );
}

#[tokio::test]
async fn messages_and_rejections_are_lines_without_their_text() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    let log = log_at(path.clone());
    let inbound = InboundMessage::text("telegram", "7", "9", "hello");
    let message = OutboundMessage::in_reply_to(
        &inbound,
        OutboundKey::new("t1", OutboundSlot::Reply),
        OutboundKind::Final,
        "open sesame".to_owned(),
    );
    log.sent(&message, None).await;
    log.sent(&message, Some("refused: open sesame")).await;
    log.rejected(&"telegram".into(), &"9".into(), &"8".into())
        .await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("sesame"), "{text}");
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| {
            json!([
                line["event"],
                line["channel"],
                line["chat"],
                line["outcome"]
            ])
        })
        .collect();
    assert_eq!(
        events,
        [
            json!(["sent", "telegram", "9", null]),
            json!(["unsent", "telegram", "9", "refused: ***"]),
            json!(["rejected", "telegram", "9", null]),
        ]
    );
    assert_eq!(verify(&path).unwrap().intact, 3);
}

fn chained(path: &Path, max_bytes: u64, keep_files: u32) -> ChainedLog {
    let settings = LogSettings {
        max_bytes,
        keep_files,
    };
    ChainedLog::new(path.to_path_buf(), settings)
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn five_lines(path: &Path) {
    let mut log = chained(path, 0, 0);
    for number in 1..=5 {
        log.append(&json!({"number": number})).unwrap();
    }
}

fn broken_at(report: &AuditReport) -> Option<u64> {
    report.broken.as_ref().map(|broken| broken.line)
}

#[test]
fn chain_continues_across_processes_and_rotations() {
    for (keep_files, first) in [(0, 1), (1, 3), (3, 7)] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("logs/audit.log");
        let mut logs = [
            chained(&path, 250, keep_files),
            chained(&path, 250, keep_files),
        ];
        for number in 0..20 {
            logs[number % 2].append(&json!({"number": number})).unwrap();
        }
        let report = verify(&path).unwrap();
        assert_eq!(report.broken, None, "{keep_files}");
        assert!(report.intact >= first && report.intact < 20, "{report:?}");
        let last = lines(&path).pop().unwrap();
        assert_eq!(report.head, Some(digest(last.as_bytes())));
    }
}

#[test]
fn concurrent_writers_do_not_fork_the_chain() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut log = chained(path, 2000, 100);
                for number in 0..25 {
                    log.append(&json!({"writer": writer, "number": number}))
                        .unwrap();
                }
            });
        }
    });
    let report = verify(&path).unwrap();
    assert_eq!((report.intact, report.broken), (100, None));
}

#[test]
fn changed_logs_are_noticed() {
    type Change = fn(&mut Vec<String>);
    let table: [(&str, Change, u64, u64); 7] = [
        (
            "edited",
            |lines| lines[2] = lines[2].replace("\"number\":3", "\"number\":9"),
            3,
            2,
        ),
        (
            "last edited",
            |lines| lines[4] = lines[4].replace("\"number\":5", "\"number\":9"),
            5,
            4,
        ),
        ("removed", |lines| drop(lines.remove(2)), 3, 2),
        ("first removed", |lines| drop(lines.remove(0)), 1, 0),
        ("reordered", |lines| lines.swap(1, 2), 2, 1),
        ("cut", |lines| lines.truncate(3), 4, 3),
        ("unchained", |lines| lines[3] = "{}".to_owned(), 4, 3),
    ];
    for (name, change, line, intact) in table {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("audit.log");
        five_lines(&path);
        let mut changed = lines(&path);
        change(&mut changed);
        fs::write(&path, changed.join("\n") + "\n").unwrap();
        let report = verify(&path).unwrap();
        assert_eq!(
            (broken_at(&report), report.intact),
            (Some(line), intact),
            "{name}: {report:?}"
        );
        // More lines do not hide it.
        chained(&path, 0, 0).append(&json!({"number": 6})).unwrap();
        let report = verify(&path).unwrap();
        let found = broken_at(&report).unwrap();
        assert!(
            found == line && report.intact <= intact + 1,
            "{name}: {report:?}"
        );
    }
}

#[test]
fn missing_files_are_noticed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    assert_eq!(verify(&path).unwrap(), AuditReport::default());
    five_lines(&path);
    fs::remove_file(&path).unwrap();
    assert_eq!(broken_at(&verify(&path).unwrap()), Some(1));
    chained(&path, 0, 0).append(&json!({})).unwrap();
    assert_eq!(broken_at(&verify(&path).unwrap()), Some(1));

    let other = home.path().join("b.log");
    five_lines(&other);
    fs::remove_file(home.path().join("b.head")).unwrap();
    assert_eq!(broken_at(&verify(&other).unwrap()), Some(6));
    chained(&other, 0, 0).append(&json!({})).unwrap();
    assert_eq!(broken_at(&verify(&other).unwrap()), Some(6));
}

#[test]
fn torn_line_is_kept_aside_and_recorded() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    five_lines(&path);
    let torn = "{\"seq\":6,\"prev\":\"ab";
    let text = fs::read_to_string(&path).unwrap() + torn;
    fs::write(&path, text).unwrap();
    assert_eq!(verify(&path).unwrap().broken, None);
    chained(&path, 0, 0).append(&json!({"number": 6})).unwrap();
    let all = lines(&path);
    let event: ChainEvent = serde_json::from_str(&all[5]).unwrap();
    assert!(
        matches!(event, ChainEvent::Torn { bytes: 19, .. }),
        "{event:?}"
    );
    assert_eq!(lines(&home.path().join("audit.log.torn")), [torn]);
    let report = verify(&path).unwrap();
    assert_eq!((report.intact, report.broken), (7, None));
}

#[test]
fn line_without_its_head_is_no_damage() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    five_lines(&path);
    let head = home.path().join("audit.head");
    let before = fs::read(&head).unwrap();
    chained(&path, 0, 0).append(&json!({"number": 6})).unwrap();
    fs::write(&head, before).unwrap();
    assert_eq!(verify(&path).unwrap().broken, None);
    chained(&path, 0, 0).append(&json!({"number": 7})).unwrap();
    let report = verify(&path).unwrap();
    assert_eq!((report.intact, report.broken), (7, None));
}

#[test]
fn older_lines_without_a_chain_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    fs::write(&path, "{\"tool\":\"exec\"}\n{\"tool\":\"exec\"}\n").unwrap();
    five_lines(&path);
    let report = verify(&path).unwrap();
    assert_eq!(
        (report.unchained, report.intact, report.broken),
        (2, 5, None)
    );
}

#[test]
fn hostile_files_end_the_check() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("audit.log");
    five_lines(&path);
    let long = fs::read_to_string(&path).unwrap() + &"x".repeat(3 << 20);
    fs::write(&path, long).unwrap();
    assert_eq!(broken_at(&verify(&path).unwrap()), Some(6));
    fs::write(
        home.path().join("audit.head"),
        "{\"first\":1,\"seq\":18446744073709551615",
    )
    .unwrap();
    assert!(verify(&path).unwrap().broken.is_some());
}

#[cfg(unix)]
#[test]
fn files_of_the_log_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    five_lines(&home.path().join("audit.log"));
    for entry in fs::read_dir(home.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.path());
    }
}
