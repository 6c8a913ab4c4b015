//! Files that appear, change and disappear while the program runs.

use std::sync::Arc;

use nanobot_tool::Registry;
use serde_json::json;

use crate::fixture::{Fixture, call, names, problem, source};

/// Returns a source whose description is `about` and whose result is `result`.
fn described(about: &str, result: &str) -> String {
    source("helper", &format!("return '{result}'")).replace("The tool helper.", about)
}

/// Looks for changes as a new turn does, and returns the list of a request.
async fn next_turn(registry: &Arc<Registry>) -> Arc<[nanobot_types::ToolSpec]> {
    registry.refresh().await;
    registry.specs()
}

#[tokio::test]
async fn files_are_noticed_changed_and_removed_between_turns() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let (_files, registry) = fixture.open();
    assert_eq!(next_turn(&registry).await.len(), 0);
    fixture.write("ws/tools/helper.py", &described("First.", "one"));
    let first = next_turn(&registry).await;
    assert_eq!(first[0].description, "First.");
    assert_eq!(call(&registry, "helper", json!({})).await.output, "one");
    let same = next_turn(&registry).await;
    assert!(Arc::ptr_eq(&first, &same));

    // Another code alone changes no request.
    fixture.write("ws/tools/helper.py", &described("First.", "two"));
    let same = next_turn(&registry).await;
    assert!(Arc::ptr_eq(&first, &same));
    assert_eq!(call(&registry, "helper", json!({})).await.output, "two");

    fixture.write("ws/tools/helper.py", &described("Second.", "three"));
    let second = next_turn(&registry).await;
    assert_eq!(second[0].description, "Second.");
    assert_eq!(call(&registry, "helper", json!({})).await.output, "three");

    fixture.remove("helper.py");
    assert_eq!(next_turn(&registry).await.len(), 0);
    let gone = call(&registry, "helper", json!({})).await;
    assert!(gone.output.contains("not found"), "{}", gone.output);
}

#[tokio::test]
async fn a_turn_can_use_what_it_wrote() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let (_files, registry) = fixture.opened().await;
    fixture.write("ws/tools/helper.py", &described("First.", "one"));
    assert_eq!(call(&registry, "helper", json!({})).await.output, "one");
    fixture.write("ws/tools/helper.py", &described("Second.", "two"));
    assert_eq!(call(&registry, "helper", json!({})).await.output, "two");
}

#[tokio::test]
async fn a_bad_file_affects_no_other_one() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.tool("good", "return 'fine'");
    fixture.write("ws/tools/helper.py", &described("First.", "one"));
    let (files, registry) = fixture.opened().await;
    fixture.write("ws/tools/helper.py", "from tool_api import Tool\nclass T(");
    registry.refresh().await;
    assert_eq!(names(&registry), ["good"]);
    assert!(problem(&files.status().await, "helper.py").starts_with("line 2:"));
    fixture.write("ws/tools/helper.py", &described("First.", "one"));
    registry.refresh().await;
    assert_eq!(names(&registry), ["good", "helper"]);
}

#[tokio::test]
async fn the_first_file_keeps_a_name() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.write("ws/tools/a.py", &source("same", "return 'a'"));
    fixture.write("ws/tools/b.py", &source("same", "return 'b'"));
    let (files, registry) = fixture.opened().await;
    let status = files.status().await;
    assert_eq!(
        problem(&status, "b.py"),
        "its tool has the same name as that of a.py, same"
    );
    assert_eq!(call(&registry, "same", json!({})).await.output, "a");
    fixture.remove("a.py");
    registry.refresh().await;
    assert_eq!(call(&registry, "same", json!({})).await.output, "b");
}
