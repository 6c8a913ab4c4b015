//! An assistant inside another program: no bus, no configuration file, no channel.
#![expect(clippy::print_stdout, reason = "the reply goes to the terminal")]
use std::process::ExitCode;
use std::sync::Arc;

use nanobot_sdk::extract::{self, HelperProcess};
use nanobot_sdk::guard::PathPolicy;
use nanobot_sdk::prelude::*;
use nanobot_sdk::providers::Demo;
use nanobot_sdk::tools::{HttpClients, SandboxRunner, ToolsConfig, builtin};

fn main() -> anyhow::Result<ExitCode> {
    // Commands are started, and web pages parsed, by this program in a second process.
    if let Some(code) = sandbox::enter().or_else(|| extract::enter(extract::read_plain)) {
        return Ok(code);
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(run())
}

async fn run() -> anyhow::Result<ExitCode> {
    let workspace = std::env::current_dir()?;
    let (config, registry) = (ToolsConfig::default(), Registry::new());
    let reader = Arc::new(HelperProcess::new());
    let guard = Arc::new(config.url_guard()?);
    let http = Arc::new(HttpClients::new(&config.web, guard, reader));
    let paths = Arc::new(PathPolicy::new(config.path_rules(&workspace)));
    let runner = Arc::new(SandboxRunner::new(&config.exec, paths.clone()));
    for tool in builtin(&config, &paths, &http, runner)?.listed {
        registry.register(tool)?;
    }
    let agent = embedded_agent(Arc::new(Demo::new("demo".into())), registry, workspace);
    let question = std::env::args().nth(1);
    let question = question.unwrap_or_else(|| "What files are here?".to_owned());
    let report = agent.process_direct(DirectRequest::new(question)).await?;
    println!("{}", report.visible.unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}
