//! Measures the `dist` binary against its floors and prints a table; see `docs/performance.md`.
#![expect(clippy::print_stdout, reason = "the table is the output")]

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    use clap::Parser as _;

    let plan = nanobot_benches::BenchPlan::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let table = runtime.block_on(nanobot_benches::measure(&plan))?;
    println!("{table}");
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() -> anyhow::Result<()> {
    anyhow::bail!("measuring needs Linux")
}
