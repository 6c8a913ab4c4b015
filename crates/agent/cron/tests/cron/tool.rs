//! The `cron` tool as a model calls it.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use nanobot_cron::{
    Clock, CronSettings, CronTool, JobStore, MAX_MESSAGE_CHARS, SessionOwners, Zone,
};
use nanobot_tool::{ToolContext, TypedTool as _};
use nanobot_types::SessionKey;
use serde_json::{Value, json};

#[derive(Debug)]
struct Noon;

impl Clock for Noon {
    fn now(&self) -> DateTime<Utc> {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }
}

/// Gives each session its own owner.
#[derive(Debug)]
struct Apart;

#[async_trait::async_trait]
impl SessionOwners for Apart {
    async fn owner(&self, session: &SessionKey) -> Option<String> {
        Some(session.to_string())
    }
}

fn tool(folder: &tempfile::TempDir, settings: CronSettings) -> CronTool {
    CronTool::new(
        JobStore::new(folder.path().join("jobs.json")),
        Arc::new(Noon),
        settings,
        Zone::UTC,
    )
}

async fn call(tool: &CronTool, session: &str, arguments: Value) -> Result<String, String> {
    let arguments = serde_json::from_value(arguments).unwrap();
    let (channel, chat) = session.split_once(':').unwrap();
    let context = ToolContext {
        channel: channel.into(),
        chat_id: chat.into(),
        ..ToolContext::detached(session)
    };
    tool.call(arguments, &context)
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn tool_rejects_jobs_below_the_minimum_interval() {
    let folder = tempfile::tempdir().unwrap();
    let table = [
        (json!({"every_seconds": 59}), Some("every 59 s")),
        (json!({"cron_expr": "* * * * * */10"}), Some("every 10 s")),
        (json!({"cron_expr": "0 9 * * * 0,30"}), Some("every 30 s")),
        (json!({"schedule": "every 5s"}), Some("every 5 s")),
        (json!({"every_seconds": 60}), None),
        (json!({"cron_expr": "* * * * *"}), None),
        (json!({"schedule": "every 30 minutes"}), None),
        (json!({"schedule": "every 1h"}), None),
        (json!({"at": "2026-01-01T12:00:01"}), None),
    ];
    for (mut arguments, refused) in table {
        arguments["action"] = json!("add");
        arguments["message"] = json!("look");
        let reply = call(
            &tool(&folder, CronSettings::default()),
            "t:1",
            arguments.clone(),
        )
        .await;
        match refused {
            Some(part) => {
                let why = reply.unwrap_err();
                assert!(
                    why.contains(part) && why.contains("cron.minIntervalSeconds"),
                    "{arguments}: {why}"
                );
                let lenient = CronSettings {
                    min_interval_seconds: 1,
                    ..CronSettings::default()
                };
                call(&tool(&folder, lenient), "t:1", arguments)
                    .await
                    .unwrap();
            }
            None => assert!(reply.is_ok(), "{arguments}: {reply:?}"),
        }
    }
}

#[tokio::test]
async fn rejects_long_messages_and_names_ignored_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let tool = tool(&folder, CronSettings::default());
    let long =
        json!({"action": "add", "message": "x".repeat(MAX_MESSAGE_CHARS + 1), "every_seconds": 60});
    assert!(
        call(&tool, "t:1", long)
            .await
            .unwrap_err()
            .contains("at most 8000 characters")
    );
    let both = json!({"action": "add", "message": "x", "every_seconds": 60, "tz": "Asia/Tokyo", "at": "2027-01-01"});
    let reply = call(&tool, "t:1", both).await.unwrap();
    assert!(
        reply.ends_with(" Ignored because every_seconds is set: at, tz."),
        "{reply}"
    );
}

#[tokio::test]
async fn owners_cannot_reach_each_others_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let tool = tool(&folder, CronSettings::default()).with_owners(Arc::new(Apart));
    call(
        &tool,
        "t:ann",
        json!({"action": "add", "message": "a secret", "every_seconds": 60}),
    )
    .await
    .unwrap();
    let store = JobStore::new(folder.path().join("jobs.json"));
    let job = store.read().unwrap().iter().next().unwrap().clone();
    assert_eq!(job.owner.as_deref(), Some("t:ann"));
    let id = job.id.to_string();
    assert_eq!(
        call(&tool, "t:bob", json!({"action": "list"}))
            .await
            .unwrap(),
        "No scheduled jobs."
    );
    let refused = call(&tool, "t:bob", json!({"action": "remove", "job_id": id}))
        .await
        .unwrap_err();
    assert_eq!(refused, format!("Job {id} not found"));
    assert!(
        call(&tool, "t:ann", json!({"action": "list"}))
            .await
            .unwrap()
            .contains("a secret")
    );
    // A job from before owners were recorded belongs to the chat that it writes to.
    store
        .edit(|jobs| {
            let mut job = jobs.find(&id).unwrap().clone();
            job.owner = None;
            jobs.remove(&id);
            jobs.add(job);
        })
        .unwrap();
    assert_eq!(
        call(&tool, "t:bob", json!({"action": "list"}))
            .await
            .unwrap(),
        "No scheduled jobs."
    );
    call(&tool, "t:ann", json!({"action": "remove", "job_id": id}))
        .await
        .unwrap();
}
