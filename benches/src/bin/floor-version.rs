//! Floor program of `--version`: a tokio program that prints a version.
#![expect(clippy::print_stdout, reason = "printing is all it does")]

use anyhow::Result;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { println!("floor v{}", env!("CARGO_PKG_VERSION")) });
    Ok(())
}
