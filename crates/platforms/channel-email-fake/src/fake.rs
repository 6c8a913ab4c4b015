//! The fake as a test uses it.

use nanobot_testkit::http::Server;
use nanobot_testkit::{ReservedPort, TestkitError, Watched};
use tokio::net::{TcpSocket, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::state::{MailFault, MailState, SentMail, StoredMail};
use crate::{imap, smtp, token_endpoint};

/// A running pair of servers; both stop on drop.
#[derive(Debug)]
pub struct MailFake {
    /// Keeps the ports reserved while the servers are down.
    imap: ReservedPort,
    smtp: ReservedPort,
    state: Watched<MailState>,
    _stop: DropGuard,
}

impl MailFake {
    /// Starts with an empty mailbox and support for IDLE.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start() -> Result<Self, TestkitError> {
        let (state, stop) = (Watched::new(MailState::default()), CancellationToken::new());
        let imap = listen(state.clone(), stop.clone(), imap::serve).await?;
        let smtp = listen(state.clone(), stop.clone(), smtp::serve).await?;
        Ok(Self {
            imap,
            smtp,
            state,
            _stop: stop.drop_guard(),
        })
    }

    /// Returns the port of the IMAP server.
    #[must_use]
    pub fn imap_port(&self) -> u16 {
        self.imap.number()
    }

    /// Returns the port of the SMTP server.
    #[must_use]
    pub fn smtp_port(&self) -> u16 {
        self.smtp.number()
    }

    /// Cuts every connection. New ones are accepted.
    pub fn cut(&self) {
        self.state.change(|state| state.cuts += 1);
    }

    /// Cuts every connection and accepts no new ones. Mails can still arrive.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
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

    /// Accepts connections again at the same ports, after [`MailFake::go_down`].
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn come_back(&self) -> Result<(), TestkitError> {
        self.state.change(|state| state.is_down = false);
        self.state
            .wait_for("the servers to come back", |state| {
                (state.listening == SERVERS).then_some(())
            })
            .await
    }

    /// Leaves all commands unanswered while `is_stalled` is `true`, without closing any connection.
    pub fn stall(&self, is_stalled: bool) {
        self.state.change(|state| state.is_stalled = is_stalled);
    }

    /// Sends waiting (IDLE) clients the number of mails, although it has not changed.
    pub fn nudge(&self) {
        self.state.change(|state| state.nudges += 1);
    }

    /// Withdraws support for IDLE, from the next connection on.
    pub fn forget_idle(&self) {
        self.state.change(|state| state.has_idle = false);
    }

    /// Withdraws support for keywords, from the next connection on.
    pub fn forget_keywords(&self) {
        self.state.change(|state| state.keeps_keywords = false);
    }

    /// Changes the password.
    pub fn change_password(&self, password: &str) {
        self.state
            .change(|state| password.clone_into(&mut state.password));
    }

    /// Recreates the mailbox with the same mails: their UIDs change, their flags stay.
    pub fn renumber(&self) {
        self.state.change(MailState::renumber);
    }

    /// Starts the provider's token endpoint, at the path `/token`; it stops on drop. Access tokens
    /// issued by it authenticate [`USER`](crate::USER) by `XOAUTH2`.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn token_server(&self) -> Result<Server, TestkitError> {
        let state = self.state.clone();
        Server::start(move |request| std::future::ready(token_endpoint::answer(&state, &request)))
            .await
    }

    /// Rotates refresh tokens from now on: every answer with an access token also has a new refresh
    /// token and invalidates the previous one.
    pub fn rotate_refresh_tokens(&self) {
        self.state.change(|state| state.provider.rotates = true);
    }

    /// Revokes all refresh and access tokens. `refresh`, if given, becomes the one valid refresh
    /// token.
    pub fn revoke_tokens(&self, refresh: Option<&str>) {
        self.state.change(|state| {
            state.provider.refresh = refresh.map(str::to_owned);
            state.provider.valid.clear();
        });
    }

    /// Sets the reported lifetime of access tokens, in seconds; 3600 by default.
    pub fn set_access_time(&self, seconds: u64) {
        self.state.change(|state| state.provider.lasts = seconds);
    }

    /// Invalidates the access tokens issued so far.
    pub fn end_access(&self) {
        self.state.change(|state| state.provider.valid.clear());
    }

    /// Returns the number of access tokens issued.
    #[must_use]
    pub fn access_tokens(&self) -> usize {
        self.state.read(|state| state.provider.given)
    }

    /// Returns the valid refresh token.
    #[must_use]
    pub fn refresh_token(&self) -> Option<String> {
        self.state.read(|state| state.provider.refresh.clone())
    }

    /// Adds a mail that arrived `days` days ago. Returns its UID.
    pub fn push_earlier(&self, days: u64, mail: impl Into<Vec<u8>>) -> u32 {
        self.state
            .change(|state| state.push_earlier(days, mail.into()))
    }

    /// Adds a mail that arrives now. Returns its UID.
    pub fn push(&self, mail: impl Into<Vec<u8>>) -> u32 {
        self.state.change(|state| state.push(mail.into()))
    }

    /// Scripts a fault for the next command of this name that has none yet: `UID FETCH`, `GREETING`
    /// and the like for IMAP; `EHLO`, `AUTH`, `MAIL`, `RCPT`, `DATA` and `CONTENT` for SMTP.
    pub fn fail_next(&self, command: &str, fault: MailFault) {
        self.state
            .change(|state| state.commands.fail_next(command, fault));
    }

    /// Returns the mails in the mailbox.
    #[must_use]
    pub fn mails(&self) -> Vec<StoredMail> {
        self.state.read(|state| state.mails.clone())
    }

    /// Returns the mails that were sent, in order.
    #[must_use]
    pub fn sent(&self) -> Vec<SentMail> {
        self.state.read(|state| state.sent.clone())
    }

    /// Returns the commands received so far, without their arguments.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        self.state.read(|state| state.commands.all().to_vec())
    }

    /// Returns the protocol violations of clients.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.state.read(|state| state.violations.clone())
    }

    /// Returns `true` if a mail has a flag.
    #[must_use]
    pub fn has_flag(&self, uid: u32, flag: &str) -> bool {
        self.state.read(|state| state.has_flag(uid, flag))
    }

    /// Waits until a mail has a flag.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_flag(&self, uid: u32, flag: &str) -> Result<(), TestkitError> {
        let what = format!("mail {uid} to be {flag}");
        self.state
            .wait_for(&what, |state| state.has_flag(uid, flag).then_some(()))
            .await
    }

    /// Waits until `probe` returns a value for the mails sent.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] naming `what` if the wait times out.
    pub async fn wait_for<R>(
        &self,
        what: &str,
        mut probe: impl FnMut(&[SentMail]) -> Option<R>,
    ) -> Result<R, TestkitError> {
        self.state.wait_for(what, |state| probe(&state.sent)).await
    }

    /// Waits until `count` mails were sent, and returns all of them.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_sent(&self, count: usize) -> Result<Vec<SentMail>, TestkitError> {
        let what = format!("{count} mails to be sent");
        self.wait_for(&what, |sent| (sent.len() >= count).then(|| sent.to_vec()))
            .await
    }

    /// Waits until `count` commands of a name were received.
    ///
    /// # Errors
    /// Returns [`TestkitError::TimedOut`] if the wait times out.
    pub async fn wait_for_command(&self, command: &str, count: usize) -> Result<(), TestkitError> {
        let what = format!("{count} times {command}");
        self.state
            .wait_for(&what, |state| state.commands.reached(command, count))
            .await
            .map(drop)
    }
}

/// Number of servers (IMAP and SMTP).
const SERVERS: usize = 2;

/// Serves every connection to a new port until `stop` fires.
async fn listen<F>(
    state: Watched<MailState>,
    stop: CancellationToken,
    serve: impl Fn(TcpStream, Watched<MailState>) -> F + Send + 'static,
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
                        // A client that disconnects is not an error of the fake, so the result is
                        // ignored.
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
