//! Folders with a manifest: any program as a tool.

use serde_json::json;

use crate::fixture::{Fixture, call, names, problem};

const MANIFEST: &str = r#"
    description = "Counts the lines of a file."
    command = ["sh", "./count.sh", "it's"]
    timeout = 60

    [parameters]
    required = ["path"]

    [parameters.properties.path]
    type = "string"
"#;

fn fixture(script: &str) -> Option<Fixture> {
    let fixture = Fixture::new()?;
    fixture.write("ws/tools/count/tool.toml", MANIFEST);
    fixture.write("ws/tools/count/count.sh", script);
    Some(fixture)
}

#[tokio::test]
async fn a_program_gets_its_arguments_as_a_line_and_its_output_is_the_result() {
    let script =
        "read -r line; echo \"$line $1\"; wc -l < notes.txt; basename \"$NANOBOT_TOOL_DIR\"";
    let Some(fixture) = fixture(script) else {
        return;
    };
    let (_files, registry) = fixture.opened().await;
    assert_eq!(names(&registry), ["count"]);
    let result = call(&registry, "count", json!({"path": "x"})).await;
    assert_eq!(result.output, "{\"path\":\"x\"} it's\n2\ncount\n");
    let result = call(&registry, "count", json!({})).await;
    assert!(
        result.output.contains("missing required path"),
        "{}",
        result.output
    );
    // The program is started anew for each call, so a change of it needs no other one.
    fixture.write("ws/tools/count/count.sh", "echo new");
    let result = call(&registry, "count", json!({"path": "x"})).await;
    assert_eq!(result.output, "new\n");
}

#[tokio::test]
async fn a_failed_program_says_why() {
    for (script, seconds, expected) in [
        (
            "echo out; echo wrong >&2; exit 3",
            60,
            "Error: exit status: 3\nwrong\nout",
        ),
        (
            "while true; do :; done",
            1,
            "Error: it did not answer within 1 s and was ended",
        ),
        ("yes", 60, "Error: it wrote more than 8 MiB"),
    ] {
        let Some(fixture) = fixture(script) else {
            return;
        };
        let manifest = MANIFEST.replace("timeout = 60", &format!("timeout = {seconds}"));
        fixture.write("ws/tools/count/tool.toml", &manifest);
        let (_files, registry) = fixture.opened().await;
        let result = call(&registry, "count", json!({"path": "x"})).await;
        assert!(
            result.output.starts_with(expected) && !result.success,
            "{script}: {}",
            result.output
        );
    }
}

#[tokio::test]
async fn a_program_is_confined_as_a_python_file_is() {
    let script = "echo x > ../outside/canary.txt; echo x > own.txt; cat ../home/.ssh/id_ed25519; \
                  echo mine > data/own.txt; env | grep -c PROPTEST; echo done";
    let Some(fixture) = fixture(script) else {
        return;
    };
    fixture.write("ws/data/.keep", "");
    let before = fixture.outside();
    let (_files, registry) = fixture.opened().await;
    let result = call(&registry, "count", json!({"path": "x"})).await;
    assert_eq!(result.output, "0\ndone\n");
    assert_eq!(fixture.outside(), before);
    assert!(!fixture.path("ws/own.txt").exists());
    let written = std::fs::read_to_string(fixture.path("ws/data/own.txt")).unwrap();
    assert_eq!(written, "mine\n");
}

#[tokio::test]
async fn a_bad_manifest_is_explained() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.write(
        "ws/tools/count/tool.toml",
        "command = []\ndescription = \"x\"",
    );
    fixture.write(
        "ws/tools/mcp_x/tool.toml",
        "command = [\"true\"]\ndescription = \"x\"",
    );
    let (files, registry) = fixture.opened().await;
    assert_eq!(names(&registry), Vec::<String>::new());
    let status = files.status().await;
    assert_eq!(
        problem(&status, "count"),
        "command has to be a list of words, the first one a program"
    );
    assert_eq!(
        problem(&status, "mcp_x"),
        "name begins with mcp_, as those of MCP servers"
    );
}
