//! Runs the fake MCP server with its authorization server, for clients in other languages.
//!
//! Prints its address as one line of JSON and serves until its input ends. For each line of input it
//! prints what happened so far; the line `end access` first ends all access tokens.
#![expect(clippy::print_stdout, reason = "its output is its interface")]

use std::io::{BufRead as _, stdin};

use nanobot_testkit::McpServerFake;
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = McpServerFake::start().await?;
    println!("{}", json!({"url": server.url()}));
    // Reading standard input blocks, so it must not run on the threads that serve.
    let serve = tokio::task::spawn_blocking(move || -> anyhow::Result<()> {
        for line in stdin().lock().lines() {
            if line? == "end access" {
                server.end_access();
            }
            println!("{}", json!(server.journal()));
        }
        Ok(())
    });
    serve.await?
}
