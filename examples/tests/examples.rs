//! Runs every example and checks its output.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// Runs a program in a folder and returns its output.
fn output(program: &str, arguments: &[&str], folder: &Path) -> String {
    let run = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    String::from_utf8(run.stdout).expect("the output is text")
}

#[test]
fn embed_agent_lists_files_with_tools() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shopping list.txt"), "milk\n").unwrap();
    let program = env!("CARGO_BIN_EXE_embed-agent");
    let printed = output(program, &[], folder.path());
    assert!(printed.contains("shopping list.txt"), "{printed}");
}

#[test]
fn embed_agent_is_short() {
    let source = include_str!("../src/bin/embed-agent.rs");
    assert!(source.lines().count() <= 40);
}

#[test]
fn custom_tool_is_called_until_it_works() {
    let folder = tempfile::tempdir().unwrap();
    let printed = output(env!("CARGO_BIN_EXE_custom-tool"), &[], folder.path());
    let (schema, reply) = printed.split_once('\n').unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(schema.strip_prefix("schema: ").unwrap())
            .unwrap(),
        serde_json::json!({
            "type": "object",
            "properties": {
                "celsius": {"description": "The temperature in degrees Celsius.", "type": "number"},
                "unit": {"description": "`fahrenheit` or `kelvin`.", "type": "string"}
            },
            "required": ["celsius", "unit"]
        })
    );
    assert_eq!(reply, "reply: Water boils at 212.0 °F.\n");
}

#[test]
fn custom_provider_is_retried_and_streams() {
    let folder = tempfile::tempdir().unwrap();
    let printed = output(env!("CARGO_BIN_EXE_custom-provider"), &[], folder.path());
    let (notice, rest) = printed.split_once('\n').unwrap();
    assert!(
        notice.starts_with("notice: ") && notice.contains("shouting"),
        "{notice}"
    );
    let words = ["GOOD ", "MORNING ", "TO ", "YOU"]
        .map(|word| format!("delta: {word}\n"))
        .concat();
    assert_eq!(rest, format!("{words}reply: GOOD MORNING TO YOU\n"));
}
