//! Runs the program with single rows. Cargo also builds a program only for such tests; `.ci/run`
//! runs the whole suite with it.

use std::{
    io,
    process::{Command, Output},
};

fn row(id: &str) -> io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_nanobot-safety-suite"))
        .args(["--only", id])
        .output()
}

#[test]
fn an_attack_is_refused_before_anything_starts() -> io::Result<()> {
    let output = row("ex-s-001")?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("was_refused: true"), "{text}");
    assert!(text.contains("effect: None"), "{text}");
    Ok(())
}

#[test]
fn an_unknown_row_is_an_error() -> io::Result<()> {
    let output = row("ex-s-none")?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(text.contains("no such row"), "{text}");
    Ok(())
}
