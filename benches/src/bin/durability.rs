//! Measures the cost of durability, and memory use under a flood; see `docs/performance.md`.
#![expect(clippy::print_stdout, reason = "the table is the output")]

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    use clap::Parser as _;

    let plan = nanobot_benches::DurabilityPlan::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    println!(
        "{}",
        runtime.block_on(nanobot_benches::measure_durability(&plan))?
    );
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() -> anyhow::Result<()> {
    anyhow::bail!("measuring needs Linux")
}
