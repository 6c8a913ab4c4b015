//! The sending server: a subset of ESMTP that requires a login.

use std::future;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_testkit::Watched;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::account::USER;
use crate::lines::line;
use crate::state::{MailFault, MailState, SentMail};
use crate::tokens::TokenProvider;

struct SmtpConnection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    state: Watched<MailState>,
    is_in: bool,
    /// Set while the client has to acknowledge the reasons of a refused login.
    is_refusing: bool,
    from: Option<String>,
    to: Vec<String>,
}

pub(crate) async fn serve(stream: TcpStream, state: Watched<MailState>) -> io::Result<()> {
    let (reader, writer) = stream.into_split();
    let reader = BufReader::new(reader);
    let mut connection = SmtpConnection {
        reader,
        writer,
        state,
        is_in: false,
        is_refusing: false,
        from: None,
        to: Vec::new(),
    };
    connection.send_line("220 fake.test ESMTP").await?;
    while let Some(command) = line(&mut connection.reader).await? {
        if !connection.handle_command(&command).await? {
            break;
        }
    }
    Ok(())
}

impl SmtpConnection {
    async fn send_line(&mut self, text: &str) -> io::Result<()> {
        self.writer
            .write_all(format!("{text}\r\n").as_bytes())
            .await
    }

    /// Carries out a command. Returns `false` if the connection ends.
    async fn handle_command(&mut self, command: &str) -> io::Result<bool> {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        let name = name.to_ascii_uppercase();
        self.state.reached(|state| !state.is_stalled).await;
        let fault = self.state.change(|state| state.begin(&name));
        if let Some(fault) = fault {
            return self.fail(fault).await;
        }
        let is_content = name == "DATA" && !self.to.is_empty();
        let answer = self.answer(&name, rest);
        self.send_line(&answer).await?;
        if is_content {
            return self.content().await;
        }
        Ok(name != "QUIT")
    }

    async fn fail(&mut self, fault: MailFault) -> io::Result<bool> {
        match fault {
            MailFault::Stall => future::pending().await,
            MailFault::Cut | MailFault::CutAfterEffect => Ok(false),
            MailFault::Answer(text) => self.send_line(&text).await.map(|()| true),
        }
    }

    fn answer(&mut self, name: &str, rest: &str) -> String {
        if std::mem::take(&mut self.is_refusing) && name.is_empty() {
            return "535 5.7.8 Username and Password not accepted.".to_owned();
        }
        let address = |prefix: &str| Some(rest.strip_prefix(prefix)?.split('>').next()?.to_owned());
        match name {
            "EHLO" => return "250-fake.test\r\n250-SMTPUTF8\r\n250 AUTH PLAIN XOAUTH2".to_owned(),
            "QUIT" => return "221 bye".to_owned(),
            "AUTH" if rest.starts_with("XOAUTH2 ") => {
                let shown = rest.trim_start_matches("XOAUTH2 ");
                self.is_in = self.state.read(|state| state.provider.lets_in(shown));
                self.is_refusing = !self.is_in;
                return if self.is_in {
                    "235 welcome".to_owned()
                } else {
                    format!("334 {}", TokenProvider::reasons())
                };
            }
            "AUTH" => {
                let password = self.state.read(|state| state.password.clone());
                let expected = STANDARD.encode(format!("\0{USER}\0{password}"));
                self.is_in = rest == format!("PLAIN {expected}");
                return if self.is_in {
                    "235 welcome"
                } else {
                    "535 5.7.8 authentication failed"
                }
                .to_owned();
            }
            "MAIL" if self.is_in => {
                if let Some(from) = address("FROM:<") {
                    self.from = Some(from);
                    return "250 ok".to_owned();
                }
            }
            "RCPT" if self.from.is_some() => {
                if let Some(to) = address("TO:<") {
                    self.to.push(to);
                    return "250 ok".to_owned();
                }
            }
            "DATA" if !self.to.is_empty() => return "354 go on".to_owned(),
            _ => {}
        }
        self.state
            .change(|state| state.violations.push(format!("{name} {rest}")));
        "503 5.5.1 not known, or not now".to_owned()
    }

    /// Receives the content of a mail.
    async fn content(&mut self) -> io::Result<bool> {
        let mut raw = String::new();
        loop {
            let Some(text) = line(&mut self.reader).await? else {
                return Ok(false);
            };
            if text == "." {
                break;
            }
            raw.push_str(text.strip_prefix('.').unwrap_or(&text));
            raw.push_str("\r\n");
        }
        let fault = self.state.change(|state| state.begin("CONTENT"));
        let is_kept = matches!(fault, None | Some(MailFault::CutAfterEffect));
        if is_kept {
            let mail = SentMail {
                from: self.from.take().unwrap_or_default(),
                to: std::mem::take(&mut self.to),
                raw,
            };
            self.state.change(|state| state.sent.push(mail));
        }
        match fault {
            Some(fault) => self.fail(fault).await,
            None => self.send_line("250 kept").await.map(|()| true),
        }
    }
}
