//! The rows about MCP servers of the corpus of attacks.

use nanobot_testkit::corpus;
use serde_json::{Value, json};

use crate::fixture::{Fixture, call, names, tool, until};

/// Returns the tools of a row; `{"repeat": [text, times]}` is written out.
fn tools_of(data: &Value) -> Value {
    let mut tools = data["tools"].clone();
    for tool in tools.as_array_mut().unwrap() {
        if let Some(repeat) = tool["description"].get("repeat") {
            let times = usize::try_from(repeat[1].as_u64().unwrap()).unwrap();
            // The line limit of the transport is below the size of the row.
            let times = times.min(4 << 20);
            tool["description"] = repeat[0].as_str().unwrap().repeat(times).into();
        }
    }
    tools
}

async fn offered(data: &Value) -> Vec<(String, String)> {
    let fixture = Fixture::with(&json!({"tools": tools_of(data)}));
    let (_servers, registry) = fixture.connected().await;
    let specs = registry.specs();
    let named = specs
        .iter()
        .map(|spec| (spec.name.to_string(), spec.description.clone()));
    named.collect()
}

async fn holds(expect: &str, data: &Value) -> bool {
    match expect {
        "load" | "load_untrusted" | "load_or_reject" => {
            let found = offered(data).await;
            found
                .iter()
                .all(|(name, _)| ["mcp_fake_add", "mcp_fake_x"].contains(&name.as_str()))
                && found.len() == 1
        }
        "namespaced" => offered(data).await[0].0 == "mcp_fake_exec",
        "truncate" => offered(data).await[0].1.len() < 5000,
        "sanitise_or_reject" => offered(data).await.iter().all(|(name, _)| {
            name.len() <= 64
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
        }),
        "distinct" => {
            let mut fixture = Fixture::new();
            for (server, tools) in data["tools"].as_object().unwrap() {
                let tools = tools.as_array().unwrap().iter();
                let tools: Vec<Value> = tools.map(|name| tool(name.as_str().unwrap())).collect();
                fixture.server(server, &json!({"tools": tools}));
            }
            let (servers, registry) = fixture.open();
            for server in fixture.servers.keys() {
                servers.connect(server).await.unwrap();
            }
            let mut found = names(&registry);
            found.dedup();
            found.len() == 2
        }
        "tolerate" => {
            let before = data["stdout"].as_str().unwrap();
            let fixture = Fixture::with(&json!({"before": before, "tools": [tool("a")]}));
            let (servers, registry) = fixture.open();
            // The forged answer may end the first session, never the program.
            let connected = servers.connect("fake").await.is_ok();
            connected == (names(&registry) == ["mcp_fake_a"])
        }
        "timeout" => {
            let mut fixture = Fixture::with(&json!({"tools": [tool("a")]}));
            fixture.server("mute", &json!({"initialize": "never"}));
            let (servers, registry) = fixture.open();
            servers.start();
            until("others start", || names(&registry) == ["mcp_fake_a"]).await;
            true
        }
        "error_result" => {
            let script = json!({"tools": [tool("die")], "calls": {"die": "exit"}});
            let fixture = Fixture::with(&script);
            let (_servers, registry) = fixture.connected().await;
            !call(&registry, "mcp_fake_die", json!({})).await.success
        }
        other => panic!("unknown word {other}"),
    }
}

#[tokio::test]
async fn all_rows_hold() {
    let rows = corpus::rows("skills_mcp").unwrap();
    let mut failed = Vec::new();
    let mut count = 0;
    for row in rows.iter().filter(|row| row.text("kind") == "mcp") {
        count += 1;
        if !holds(row.text("expect"), &row.json["data"]).await {
            failed.push(row.id.clone());
        }
    }
    nanobot_testkit::summarize(&format!(
        "MCP servers: {} of {count} rows hold",
        count - failed.len()
    ));
    assert_eq!((count, failed), (10, Vec::<String>::new()));
}
