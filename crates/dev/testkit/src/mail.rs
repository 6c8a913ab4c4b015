//! A mailbox and a server for sending, for what real servers do not do when they are told to:
//! stalls, cut connections, answers that make no sense.
//!
//! Strict in what it takes: a command it does not know, or one at the wrong time, is answered with an
//! error and remembered ([`MailFake::violations`]). Known gaps: one mailbox (`INBOX`), one mail per
//! command, no encryption, and of IMAP only what a client needs that looks for unread mail, fetches
//! and marks it, waits (IDLE) and copies it elsewhere.

mod imap;
mod smtp;
mod state;
mod tokens;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use state::{MailFault, SentMail, StoredMail};
pub use tokens::{CLIENT_ID, CLIENT_SECRET, REFRESH_TOKEN};

use crate::http::Server;
use crate::sync::Watched;
use crate::{ReservedPort, TestkitError};
use state::State;

/// Who may log in.
pub const USER: &str = "bot@bot.test";
/// With which password.
pub const PASSWORD: &str = "Secret-of-the-fake 1";

/// A running pair of servers; they stop when dropped.
#[derive(Debug)]
pub struct MailFake {
    /// Keep the ports while nobody listens there.
    imap: ReservedPort,
    smtp: ReservedPort,
    state: Watched<State>,
    _stop: DropGuard,
}

impl MailFake {
    /// Starts with an empty mailbox and a server that knows IDLE.
    ///
    /// # Errors
    /// [`TestkitError::Listen`].
    pub async fn start() -> Result<Self, TestkitError> {
        let (state, stop) = (Watched::new(State::default()), CancellationToken::new());
        let imap = listen(state.clone(), stop.clone(), imap::serve).await?;
        let smtp = listen(state.clone(), stop.clone(), smtp::serve).await?;
        Ok(Self {
            imap,
            smtp,
            state,
            _stop: stop.drop_guard(),
        })
    }

    /// The port of the mailbox.
    #[must_use]
    pub fn imap_port(&self) -> u16 {
        self.imap.number()
    }

    /// The port of the server for sending.
    #[must_use]
    pub fn smtp_port(&self) -> u16 {
        self.smtp.number()
    }

    /// Ends every connection. New ones are taken.
    pub fn cut(&self) {
        self.state.change(|state| state.cuts += 1);
    }

    /// Ends every connection and takes no new ones. Mails can arrive all the same.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn go_down(&self) -> Result<(), TestkitError> {
        self.state.change(|state| {
            state.is_down = true;
            state.cuts += 1;
        });
        self.state
            .wait_for("the servers to go down", |state| {
                (state.listening == 0).then_some(())
            })
            .await
    }

    /// Ends what [`MailFake::go_down`] began, at the same ports.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn come_back(&self) -> Result<(), TestkitError> {
        self.state.change(|state| state.is_down = false);
        self.state
            .wait_for("the servers to come back", |state| {
                (state.listening == SERVERS).then_some(())
            })
            .await
    }

    /// From now on nothing is answered, though no connection ends; or, with `false`, it is again.
    pub fn stall(&self, is_stalled: bool) {
        self.state.change(|state| state.is_stalled = is_stalled);
    }

    /// Whoever waits for mail is told how many there are, though there are no more.
    pub fn nudge(&self) {
        self.state.change(|state| state.nudges += 1);
    }

    /// From the next connection on the mailbox knows no IDLE.
    pub fn forget_idle(&self) {
        self.state.change(|state| state.has_idle = false);
    }

    /// From the next connection on the mailbox keeps no keywords.
    pub fn forget_keywords(&self) {
        self.state.change(|state| state.keeps_keywords = false);
    }

    /// Another password is valid from now on.
    pub fn change_password(&self, password: &str) {
        self.state
            .change(|state| password.clone_into(&mut state.password));
    }

    /// The mailbox is made anew with the same mails: their numbers change, their flags stay.
    pub fn renumber(&self) {
        self.state.change(State::renumber);
    }

    /// The provider's server for access tokens, at the path `/token`; it stops when dropped. With one
    /// that it gave, one can log in as [`USER`] by `XOAUTH2`.
    ///
    /// # Errors
    /// [`TestkitError::Listen`].
    pub async fn token_server(&self) -> Result<Server, TestkitError> {
        let state = self.state.clone();
        Server::start(move |request| std::future::ready(tokens::answer(&state, &request))).await
    }

    /// From now on every answer with an access token brings another refresh token, and the one before
    /// it is worth nothing.
    pub fn rotate_refresh_tokens(&self) {
        self.state.change(|state| state.provider.rotates = true);
    }

    /// No refresh token is valid any more, and no access token that was given; or, with a text, that
    /// refresh token is.
    pub fn revoke_tokens(&self, refresh: Option<&str>) {
        self.state.change(|state| {
            state.provider.refresh = refresh.map(str::to_owned);
            state.provider.valid.clear();
        });
    }

    /// Sets how long access tokens are said to last, in seconds; 3600 unless set.
    pub fn set_access_time(&self, seconds: u64) {
        self.state.change(|state| state.provider.lasts = seconds);
    }

    /// The access tokens that were given are not taken any more.
    pub fn end_access(&self) {
        self.state.change(|state| state.provider.valid.clear());
    }

    /// How many access tokens were given.
    #[must_use]
    pub fn access_tokens(&self) -> usize {
        self.state.read(|state| state.provider.given)
    }

    /// The refresh token that is valid.
    #[must_use]
    pub fn refresh_token(&self) -> Option<String> {
        self.state.read(|state| state.provider.refresh.clone())
    }

    /// A mail is there that arrived so many days ago. Returns its number.
    pub fn push_earlier(&self, days: u64, mail: impl Into<Vec<u8>>) -> u32 {
        self.state
            .change(|state| state.push_earlier(days, mail.into()))
    }

    /// A mail arrives. Returns its number.
    pub fn push(&self, mail: impl Into<Vec<u8>>) -> u32 {
        self.state.change(|state| state.push(mail.into()))
    }

    /// Lets the next command of this name go wrong: `UID FETCH`, `GREETING` and the like in the mailbox; `EHLO`,
    /// `AUTH`, `MAIL`, `RCPT`, `DATA` and `CONTENT` while sending.
    pub fn fail_next(&self, command: &str, fault: MailFault) {
        self.state
            .change(|state| state.commands.fail_next(command, fault));
    }

    /// The mails in the mailbox.
    #[must_use]
    pub fn mails(&self) -> Vec<StoredMail> {
        self.state.read(|state| state.mails.clone())
    }

    /// The mails that were sent, in order.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMail> {
        self.state.read(|state| state.sent.clone())
    }

    /// The commands that came, without their arguments.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        self.state.read(|state| state.commands.all().to_vec())
    }

    /// What no client should have said.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.state.read(|state| state.violations.clone())
    }

    /// Whether a mail has a flag.
    #[must_use]
    pub fn has_flag(&self, uid: u32, flag: &str) -> bool {
        self.state.read(|state| state.has_flag(uid, flag))
    }

    /// Waits until a mail has a flag.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_flag(&self, uid: u32, flag: &str) -> Result<(), TestkitError> {
        let what = format!("mail {uid} to be {flag}");
        self.state
            .wait_for(&what, |state| state.has_flag(uid, flag).then_some(()))
            .await
    }

    /// Waits until `probe` finds what it looks for among the mails that were sent.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`] naming `what`.
    pub async fn wait_for<R>(
        &self,
        what: &str,
        mut probe: impl FnMut(&[SentMail]) -> Option<R>,
    ) -> Result<R, TestkitError> {
        self.state.wait_for(what, |state| probe(&state.sent)).await
    }

    /// Waits until so many mails were sent, and returns all of them.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_sent(&self, count: usize) -> Result<Vec<SentMail>, TestkitError> {
        let what = format!("{count} mails to be sent");
        self.wait_for(&what, |sent| (sent.len() >= count).then(|| sent.to_vec()))
            .await
    }

    /// Waits until so many commands of a name have come.
    ///
    /// # Errors
    /// [`TestkitError::TimedOut`].
    pub async fn wait_for_command(&self, command: &str, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} times {command}");
        self.state
            .wait_for(&what, |state| state.commands.reached(command, count))
            .await
            .map(drop)
    }
}

/// How many servers there are.
const SERVERS: usize = 2;

/// Serves every connection to a new port until `stop` fires.
async fn listen<F>(
    state: Watched<State>,
    stop: CancellationToken,
    serve: impl Fn(TcpStream, Watched<State>) -> F + Send + 'static,
) -> Result<ReservedPort, TestkitError>
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let port = ReservedPort::new()?;
    let address = port.address();
    let bind = move || {
        let socket = TcpSocket::new_v4()?;
        if cfg!(unix) {
            socket.set_reuseaddr(true)?;
        }
        socket.bind(address)?;
        socket.listen(128)
    };
    let mut listener = Some(bind().map_err(TestkitError::Listen)?);
    state.change(|state| state.listening += 1);
    let tasks = TaskTracker::new();
    let connections = tasks.clone();
    let ended = stop.clone();
    let accept = async move {
        loop {
            if let Some(open) = &listener {
                tokio::select! {
                    Ok((stream, _)) = open.accept() => {
                        let cuts = state.read(|state| state.cuts);
                        let (serving, watched, stop) = (serve(stream, state.clone()), state.clone(), stop.clone());
                        // A client that goes away is no matter of the fake.
                        connections.spawn(async move {
                            tokio::select! {
                                _ = serving => {}
                                () = watched.reached(|state| state.cuts != cuts) => {}
                                () = stop.cancelled() => {}
                            }
                        });
                    }
                    () = state.reached(|state| state.is_down) => {
                        listener = None;
                        state.change(|state| state.listening -= 1);
                    }
                }
            } else {
                state.reached(|state| !state.is_down).await;
                listener = bind().ok();
                state.change(|state| state.listening += usize::from(listener.is_some()));
            }
        }
    };
    tasks.spawn(async move {
        let _: Option<()> = ended.run_until_cancelled(accept).await;
    });
    Ok(port)
}

/// The next line without its end. `None` when there is none.
async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<String>> {
    line_into(reader, &mut Vec::new()).await
}

/// The same; what was read when it is not awaited to its end stays in `begun`, for the next call.
async fn line_into(
    reader: &mut (impl AsyncBufRead + Unpin),
    begun: &mut Vec<u8>,
) -> std::io::Result<Option<String>> {
    reader.read_until(b'\n', begun).await?;
    let line = std::mem::take(begun);
    // A line without an end is nobody's command: who began it was killed or has given up.
    if !line.ends_with(b"\n") {
        return Ok(None);
    }
    Ok(Some(
        String::from_utf8_lossy(&line)
            .trim_end_matches(['\r', '\n'])
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_was_cut_is_no_line() {
        let mut reader = &b"a1 NOOP\r\na2"[..];
        assert_eq!(line(&mut reader).await.unwrap().as_deref(), Some("a1 NOOP"));
        assert_eq!(line(&mut reader).await.unwrap(), None);
        assert_eq!(line(&mut reader).await.unwrap(), None);
    }
}
