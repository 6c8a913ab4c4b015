//! The jobs file.

use std::fs;

use nanobot_cron::{CronError, Job, JobSchedule, JobStore, Payload, RunStatus, Zone};
use serde_json::{Value, json};

/// Returns jobs as the Python program writes them, with keys that later versions and other programs
/// add.
fn python() -> Value {
    json!({"version": 1, "kept": true, "jobs": [
        {"id": "0a1b2c3d", "name": "water", "enabled": true,
         "schedule": {"kind": "every", "atMs": null, "everyMs": 60_000, "expr": null, "tz": null},
         "payload": {"kind": "agent_turn", "message": "Water the plants", "deliver": true, "channel": "telegram",
                     "to": "1", "channelMeta": {"thread": 7}},
         "state": {"nextRunAtMs": 1_767_225_660_000_i64, "lastRunAtMs": null, "lastStatus": null, "lastError": null},
         "createdAtMs": 1, "updatedAtMs": 1, "deleteAfterRun": false, "colour": "green"},
        {"name": "has no id"},
    ]})
}

#[test]
fn unknown_members_of_python_files_are_preserved() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cron/jobs.json");
    fs::create_dir(home.path().join("cron")).unwrap();
    fs::write(&path, python().to_string()).unwrap();
    let store = JobStore::new(&path);
    let jobs = store.read().unwrap();
    assert_eq!(
        jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(),
        ["water"]
    );
    store
        .edit(|jobs| jobs.find("0a1b2c3d").unwrap().state.last_status = Some(RunStatus::Ok))
        .unwrap();
    let mut expected = python();
    expected["jobs"][0]["state"]["lastStatus"] = json!("ok");
    expected["jobs"][0]["state"]["runHistory"] = json!([]);
    assert_eq!(
        serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap(),
        expected
    );
}

#[test]
fn writes_the_format_of_the_python_program() {
    let home = tempfile::tempdir().unwrap();
    let store = JobStore::new(home.path().join("cron/jobs.json"));
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let payload = Payload {
        message: "Hi".to_owned(),
        deliver: true,
        ..Payload::default()
    };
    let job = store
        .add(
            Job::new("Hi", JobSchedule::every_seconds(60), payload, now),
            now,
            Zone::UTC,
        )
        .unwrap();
    let expected = json!({"version": 1, "jobs": [
        {"id": job.id, "name": "Hi", "enabled": true,
         "schedule": {"kind": "every", "atMs": null, "everyMs": 60_000, "expr": null, "tz": null},
         "payload": {"kind": "agent_turn", "message": "Hi", "deliver": true, "channel": null, "to": null},
         "state": {"nextRunAtMs": 1_767_225_660_000_i64, "lastRunAtMs": null, "lastStatus": null, "lastError": null,
                   "runHistory": []},
         "createdAtMs": 1_767_225_600_000_i64, "updatedAtMs": 1_767_225_600_000_i64, "deleteAfterRun": false},
    ]});
    assert_eq!(
        serde_json::from_slice::<Value>(&fs::read(store.path()).unwrap()).unwrap(),
        expected
    );
    assert_eq!(
        job.next_in_words(Zone::UTC).unwrap(),
        "Thu 2026-01-01 00:01 UTC"
    );
    store.remove(job.id.as_str()).unwrap();
    assert!(matches!(
        store.remove(job.id.as_str()),
        Err(CronError::Unknown { .. })
    ));
}

#[test]
fn unreadable_file_is_left_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("jobs.json");
    fs::write(&path, "{\"jobs\": [").unwrap();
    let store = JobStore::new(&path);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let job = Job::new("x", JobSchedule::every_seconds(60), Payload::default(), now);
    assert!(matches!(
        store.add(job, now, Zone::UTC),
        Err(CronError::Unreadable { .. })
    ));
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"jobs\": [");
}

#[test]
fn file_of_a_newer_version_is_left_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("jobs.json");
    let text = r#"{"version": 2, "jobs": []}"#;
    fs::write(&path, text).unwrap();
    let store = JobStore::new(&path);
    assert!(matches!(
        store.read(),
        Err(CronError::TooNew { version: 2, .. })
    ));
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let job = Job::new("x", JobSchedule::every_seconds(60), Payload::default(), now);
    let error = store.add(job, now, Zone::UTC).unwrap_err();
    assert!(error.to_string().ends_with(
        "has version 2, but this program supports versions up to 1; nothing was changed"
    ));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}
