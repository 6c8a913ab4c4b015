//! The configuration rows of the stored-data corpus.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use nanobot_config::{ConfigError, ConfigFinding};
use serde_json::Value;

use crate::home::{Access, AgentDefaults, Gateway, Home, Provider, Tools};

struct Read {
    findings: Vec<ConfigFinding>,
    allow_from: Option<Vec<String>>,
}

/// Loads and reads every section, as the gateway does.
fn read_all(home: &Home) -> Result<Read, ConfigError> {
    let config = home.load()?;
    config.section::<AgentDefaults>("agents.defaults")?;
    config.section::<Gateway>("gateway")?;
    config.section::<Tools>("tools")?;
    for name in config.names("providers")? {
        config.section::<Provider>(&format!("providers.{name}"))?;
    }
    let access: Access = config.section("channels.telegram")?;
    config.raw("channels.telegram")?;
    Ok(Read {
        findings: config.findings().to_vec(),
        allow_from: access.allow_from,
    })
}

fn file_of(row: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    for segment in row["segments"].as_array().unwrap() {
        if let Some(text) = segment["t"].as_str() {
            bytes.extend_from_slice(text.as_bytes());
        } else {
            let encoded = segment["b64"].as_str().unwrap();
            let decoded = base64::engine::general_purpose::STANDARD.decode(encoded);
            bytes.extend(decoded.unwrap());
        }
    }
    bytes
}

fn is_as_expected(outcome: &str, result: &Result<Read, ConfigError>) -> bool {
    match (outcome, result) {
        ("error" | "ok_or_error" | "error_or_documented", Err(error)) => {
            error.to_string().contains("config.json") && !error.remedy().is_empty()
        }
        ("error_or_defaults", Ok(read)) => {
            matches!(read.findings.as_slice(), [ConfigFinding::EmptyFile { .. }])
        }
        ("ok", Ok(read)) => read.findings.is_empty(),
        ("warn", Ok(read)) => read.findings.iter().any(
            |finding| matches!(finding, ConfigFinding::UnknownKey { nearest: Some(nearest), .. } if nearest == "maxTokens"),
        ),
        ("deny_all", Ok(read)) => read.allow_from.as_deref() == Some(&[]),
        _ => false,
    }
}

#[test]
fn every_corpus_row_has_its_expected_outcome() {
    let corpus =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/testkit/corpus/stored_data.jsonl");
    let corpus = fs::read_to_string(corpus).unwrap();
    let rows: Vec<Value> = corpus
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|row: &Value| row["kind"] == "config")
        .collect();
    assert_eq!(rows.len(), 13, "rows of kind config");
    let mut failing = Vec::new();
    for row in &rows {
        let file = file_of(row);
        let home = Home::with(&file);
        let result = read_all(&home);
        let outcome = row["expect"]["outcome"].as_str().unwrap();
        let untouched = fs::read(home.file()).unwrap() == file;
        if !untouched || !is_as_expected(outcome, &result) {
            let said = result.map(|read| read.findings);
            failing.push(format!("{}: wanted {outcome}, got {said:?}", row["id"]));
        }
    }
    assert!(failing.is_empty(), "{}", failing.join("\n"));
}

#[test]
fn load_errors_name_the_position_and_key() {
    let table: [(&[u8], &str); 12] = [
        (
            b"{\"agents\": {",
            "~/config.json:1:12: not valid JSON: EOF while parsing an object",
        ),
        (
            b"{\n \"agents\":{},}",
            "~/config.json:2:14: not valid JSON: trailing comma",
        ),
        (
            b"{\n\"x\":\"\xff\"}",
            "~/config.json:2:6: this is not UTF-8 text",
        ),
        (
            b"[1]",
            "~/config.json: the file holds a list, but an object {…} is wanted",
        ),
        (
            b"{\"gateway\":{\n  \"port\":\"18790\"}}",
            "~/config.json:2:3: `gateway.port` is the text \"18790\", but a whole number from 0 to 65535 is wanted",
        ),
        (
            b"{\"gateway\":{\"port\":70000}}",
            "~/config.json:1:13: `gateway.port` is the number 70000, but a whole number from 0 to 65535 is wanted",
        ),
        (
            b"{\"gateway\": 5}",
            "~/config.json:1:2: `gateway` is the number 5, but an object {…} is wanted",
        ),
        (
            b"{\"tools\":{\"restrict_to_workspace\":\"false\"}}",
            "~/config.json:1:11: `tools.restrictToWorkspace` is the text \"false\", but true or false is wanted",
        ),
        (
            b"{\"tools\":{\"allowedPaths\":[\"/a\",\n7]}}",
            "~/config.json:1:11: `tools.allowedPaths.1` is the number 7, but text in quotes is wanted",
        ),
        (
            b"{\"channels\":{\"telegram\":{\n\"allowFrom\":\"123\"}}}",
            "~/config.json:2:1: `channels.telegram.allowFrom` is the text \"123\", but a list […] is wanted",
        ),
        (
            b"{\"agents\":{\"defaults\":{\n\"max_tokens\":10,\n\"maxTokens\":20}}}",
            "~/config.json: `agents.defaults.maxTokens` is set twice with different values: `max_tokens` in line 2 and `maxTokens` in line 3",
        ),
        (
            b"{\"providers\":{\"openai\":{\"apiKey\":\"${NOT_SET}\"}}}",
            "~/config.json:1:25: `providers.openai.apiKey` refers to ${NOT_SET}, which is not set in the environment",
        ),
    ];
    for (file, message) in table {
        let home = Home::with(file);
        match read_all(&home) {
            Err(error) => assert_eq!(home.tilde(&error), message),
            Ok(_) => panic!("accepted, wanted: {message}"),
        }
    }
}
