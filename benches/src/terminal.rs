//! The prompt on a pseudo-terminal, observed from outside.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use tokio::process::{Child, Command};

use crate::home::Home;
use crate::programs::Programs;

/// Time after which a missing text is an error.
const LIMIT: Duration = Duration::from_secs(20);
/// The text of an empty prompt.
const PROMPT: &str = "You:";

/// A prompt on a terminal of 24 rows and 80 columns; killed when dropped.
#[derive(Debug)]
pub(crate) struct BenchTerminal {
    child: Child,
    keyboard: File,
    output: Receiver<(Instant, Vec<u8>)>,
    /// Output since the last text that was waited for.
    shown: Vec<u8>,
}

impl BenchTerminal {
    /// Starts a prompt and returns it with the time until it was drawn.
    pub(crate) fn open(programs: &Programs, home: &Home) -> Result<(Self, Duration)> {
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let ends = openpty(Some(&size), None)?;
        // The program must not inherit the other end, or the terminal never closes.
        fcntl(&ends.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        let mut command = Command::new(&programs.nanobot);
        home.isolate(&mut command)
            .arg("agent")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(ends.slave.try_clone()?))
            .stdout(Stdio::from(ends.slave.try_clone()?))
            .stderr(Stdio::from(ends.slave))
            .kill_on_drop(true);
        let begun = Instant::now();
        let child = command.spawn()?;
        // The command holds descriptors of the terminal.
        drop(command);
        let keyboard = File::from(ends.master);
        let mut screen = keyboard.try_clone()?;
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 64 << 10];
            while let Ok(count) = screen.read(&mut buffer) {
                let read = buffer.get(..count).unwrap_or_default().to_vec();
                if count == 0 || sender.send((Instant::now(), read)).is_err() {
                    return;
                }
            }
        });
        let mut terminal = Self {
            child,
            keyboard,
            output,
            shown: Vec::new(),
        };
        let ready = terminal.wait_for(PROMPT)?;
        Ok((terminal, ready - begun))
    }

    /// Kills the program and waits for its end: it locks its session until then.
    pub(crate) async fn close(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    pub(crate) fn type_in(&mut self, text: &str) -> Result<()> {
        Ok(self.keyboard.write_all(text.as_bytes())?)
    }

    /// Waits for a text and returns the time at which it was written.
    pub(crate) fn wait_for(&mut self, text: &str) -> Result<Instant> {
        loop {
            let (at, bytes) = self
                .output
                .recv_timeout(LIMIT)
                .with_context(|| format!("the terminal does not show {text:?}"))?;
            self.shown.extend(bytes);
            let found = self
                .shown
                .windows(text.len())
                .position(|window| window == text.as_bytes());
            if let Some(start) = found {
                self.shown.drain(..start + text.len());
                return Ok(at);
            }
        }
    }

    /// Waits until nothing was written for a time.
    pub(crate) fn settle(&mut self, quiet: Duration) {
        while self.output.recv_timeout(quiet).is_ok() {}
        self.shown.clear();
    }

    /// Returns the anonymous memory of the program: what the kernel cannot drop, in KiB.
    pub(crate) fn anonymous_kib(&self) -> Result<u64> {
        let pid = self.child.id().context("the prompt ended")?;
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix("Anonymous:"))
            .context("no Anonymous in smaps_rollup")?;
        Ok(value.trim().trim_end_matches("kB").trim().parse()?)
    }
}
