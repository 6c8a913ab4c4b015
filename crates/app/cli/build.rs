//! Records facts of the build for `nanobot --version -v`.
//!
//! Decision: nothing here depends on the time or the place of the build, so that two builds of one
//! commit are equal. A build without git, such as one from an archive, takes the commit from
//! `NANOBOT_BUILD_COMMIT` and the date from `SOURCE_DATE_EPOCH` (seconds since 1970); what is not
//! known is `unknown`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const UNKNOWN: &str = "unknown";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = workspace();
    if let Some(root) = &root {
        watch_commits(root);
    }
    let git = |arguments: &[&str]| root.as_deref().and_then(|root| git(root, arguments));
    let commit = given("NANOBOT_BUILD_COMMIT").or_else(|| git(&["rev-parse", "HEAD"]));
    let date = given("SOURCE_DATE_EPOCH").or_else(|| git(&["log", "-1", "--format=%ct"]));
    record("COMMIT", commit);
    record("SECONDS", date);
    record("TARGET", env::var("TARGET").ok());
    record("PROFILE", profile());
    record("RUSTC", rustc());
}

/// Returns a variable of the environment. A change of it runs this script again.
fn given(name: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={name}");
    let value = env::var(name).ok()?;
    Some(value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Passes a fact to the crate.
fn record(name: &str, value: Option<String>) {
    let value = value.unwrap_or_else(|| UNKNOWN.to_owned());
    // A line feed would end the instruction to cargo.
    let value = value.lines().next().unwrap_or(UNKNOWN);
    println!("cargo::rustc-env=NANOBOT_BUILD_{name}={value}");
}

/// Returns the workspace if it is a git repository itself. An archive that was unpacked somewhere
/// in another repository must not show the commit of that one.
fn workspace() -> Option<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from)?;
    let root = manifest.ancestors().nth(3)?;
    root.join(".git").exists().then(|| root.to_owned())
}

/// Runs this script again after a commit or a checkout: git writes both into this log.
fn watch_commits(root: &Path) {
    let log = git(root, &["rev-parse", "--git-path", "logs/HEAD"]).map(|path| root.join(path));
    if let Some(log) = log.filter(|log| log.exists()) {
        println!("cargo::rerun-if-changed={}", log.display());
    }
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    output(Command::new("git").arg("-C").arg(root).args(arguments))
}

/// Returns the profile by the name of its folder, `target/[TARGET/]PROFILE/build/PACKAGE/out`:
/// cargo itself names only `debug` and `release`.
fn profile() -> Option<String> {
    let out = env::var_os("OUT_DIR").map(PathBuf::from)?;
    let is_usual = out
        .ancestors()
        .nth(2)
        .is_some_and(|folder| folder.ends_with("build"));
    let named = out.ancestors().nth(3).and_then(Path::file_name);
    named
        .filter(|_| is_usual)
        .map(|name| name.to_string_lossy().into_owned())
        .or_else(|| env::var("PROFILE").ok())
}

fn rustc() -> Option<String> {
    let rustc = env::var_os("RUSTC")?;
    output(Command::new(rustc).arg("--version"))
}

/// Returns what a command printed, if it succeeded.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
