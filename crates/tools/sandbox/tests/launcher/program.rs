//! A program that is only a launcher; or, with an argument, a confined reader that tries to leave.

use std::{
    fs::File,
    net::TcpListener,
    process::{Command, ExitCode},
    thread,
};

fn main() -> ExitCode {
    if let Some(code) = nanobot_sandbox::enter() {
        return code;
    }
    if std::env::args().nth(1).as_deref() != Some("reader") {
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::from(!reader_is_confined()))
}

fn reader_is_confined() -> bool {
    let id = std::process::id().to_string();
    if nanobot_sandbox::confine_reader().is_err() {
        return false;
    }
    let computes = thread::spawn(|| vec![1_u8; 1 << 20].len());
    File::open("/etc/passwd").is_err()
        && File::create("/tmp/nanobot-reader").is_err()
        && TcpListener::bind(("127.0.0.1", 0)).is_err()
        && Command::new("/bin/kill")
            .args(["-9", &id])
            .status()
            .is_err()
        && computes.join().is_ok_and(|length| length == 1 << 20)
}
