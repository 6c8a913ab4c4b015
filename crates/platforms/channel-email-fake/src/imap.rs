//! The mailbox: a subset of IMAP4rev1.

use std::fmt::Write as _;
use std::future;
use std::io;

use chrono::NaiveDate;
use nanobot_testkit::Watched;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::account::USER;
use crate::lines::{line, line_into};
use crate::state::{MailFault, MailState, StoredMail};
use crate::tokens::TokenProvider;

/// An IMAP connection.
struct ImapConnection {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    state: Watched<MailState>,
    has_idle: bool,
    is_in: bool,
    is_selected: bool,
    /// Number of mails that the client knows of.
    told: usize,
}

/// Reply to a command.
enum Next {
    GoOn(String),
    End(String),
    Idle,
    Authenticate,
}

pub(crate) async fn serve(stream: TcpStream, state: Watched<MailState>) -> io::Result<()> {
    let (reader, writer) = stream.into_split();
    let has_idle = state.read(|state| state.has_idle);
    let reader = BufReader::new(reader);
    let mut connection = ImapConnection {
        reader,
        writer,
        state,
        has_idle,
        is_in: false,
        is_selected: false,
        told: 0,
    };
    match connection
        .state
        .change(|state| state.commands.fault("GREETING"))
    {
        None => connection.send_line("* OK ready\r\n").await?,
        Some(MailFault::Answer(text)) => return connection.send_line(&text).await,
        Some(MailFault::Stall) => future::pending().await,
        Some(MailFault::Cut | MailFault::CutAfterEffect) => return Ok(()),
    }
    while let Some(command) = line(&mut connection.reader).await? {
        if !connection.handle_command(&command).await? {
            break;
        }
    }
    Ok(())
}

impl ImapConnection {
    async fn send_line(&mut self, text: &str) -> io::Result<()> {
        self.state.reached(|state| !state.is_stalled).await;
        self.writer.write_all(text.as_bytes()).await
    }

    /// Carries out a command. Returns `false` if the connection ends.
    async fn handle_command(&mut self, command: &str) -> io::Result<bool> {
        let (tag, rest) = command.split_once(' ').unwrap_or((command, ""));
        let (mut name, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let whole;
        if name == "UID" {
            let (verb, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
            whole = format!("UID {verb}");
            (name, rest) = (whole.as_str(), arguments);
        }
        self.state.reached(|state| !state.is_stalled).await;
        let fault = self.state.change(|state| state.begin(name));
        match &fault {
            Some(MailFault::Stall) => future::pending().await,
            Some(MailFault::Cut) => return Ok(false),
            Some(MailFault::Answer(text)) => {
                self.send_line(&text.replace("{tag}", tag)).await?;
                return Ok(true);
            }
            Some(MailFault::CutAfterEffect) | None => {}
        }
        let next = self.answer(tag, name, rest);
        if fault.is_some() {
            return Ok(false);
        }
        match next {
            Next::GoOn(text) => self.send_line(&text).await.map(|()| true),
            Next::End(text) => self.send_line(&text).await.map(|()| false),
            Next::Idle => self.idle(tag).await,
            Next::Authenticate => self.authenticate(tag).await,
        }
    }

    fn answer(&mut self, tag: &str, name: &str, rest: &str) -> Next {
        let needs_mailbox = name.starts_with("UID ") || name == "IDLE";
        if needs_mailbox && !self.is_selected {
            return self.refuse(tag, name, "select a mailbox first");
        }
        match name {
            "CAPABILITY" => {
                let idle = if self.has_idle { " IDLE" } else { "" };
                Next::GoOn(format!(
                    "* CAPABILITY IMAP4rev1 ID UIDPLUS AUTH=XOAUTH2{idle}\r\n{tag} OK done\r\n"
                ))
            }
            "ID" => Next::GoOn(format!("* ID NIL\r\n{tag} OK done\r\n")),
            "LOGIN" => {
                let password = self.state.read(|state| state.password.clone());
                self.is_in = words(rest) == [USER, &password];
                let no = "NO [AUTHENTICATIONFAILED] Authentication failed.";
                Next::GoOn(format!(
                    "{tag} {}\r\n",
                    if self.is_in { "OK Logged in." } else { no }
                ))
            }
            "AUTHENTICATE" if rest == "XOAUTH2" => Next::Authenticate,
            "SELECT" | "EXAMINE" if self.is_in => self.select(tag, rest),
            "NOOP" if self.is_in => Next::GoOn(format!("{}{tag} OK done\r\n", self.news())),
            "LOGOUT" => Next::End(format!("* BYE\r\n{tag} OK done\r\n")),
            "IDLE" if self.has_idle => Next::Idle,
            "UID SEARCH" => self.search(tag, rest),
            "UID FETCH" | "UID STORE" | "UID COPY" | "UID EXPUNGE" => self.touch(tag, name, rest),
            "STARTTLS" => Next::GoOn(format!("{tag} NO not here\r\n")),
            _ => self.refuse(tag, name, "not known, or not now"),
        }
    }

    /// Checks an access token. If it is refused, the client has to acknowledge the reasons before
    /// it gets the final answer.
    async fn authenticate(&mut self, tag: &str) -> io::Result<bool> {
        self.send_line("+ \r\n").await?;
        let Some(shown) = line(&mut self.reader).await? else {
            return Ok(false);
        };
        self.is_in = self.state.read(|state| state.provider.lets_in(&shown));
        if self.is_in {
            self.send_line(&format!("{tag} OK Logged in.\r\n")).await?;
            return Ok(true);
        }
        self.send_line(&format!("+ {}\r\n", TokenProvider::reasons()))
            .await?;
        let Some(empty) = line(&mut self.reader).await? else {
            return Ok(false);
        };
        if !empty.is_empty() {
            self.state
                .change(|state| state.violations.push(format!("AUTHENTICATE: {empty}")));
        }
        self.send_line(&format!(
            "{tag} NO [AUTHENTICATIONFAILED] Invalid credentials\r\n"
        ))
        .await?;
        Ok(true)
    }

    fn refuse(&self, tag: &str, name: &str, why: &str) -> Next {
        self.state
            .change(|state| state.violations.push(format!("{name}: {why}")));
        Next::GoOn(format!("{tag} BAD {why}\r\n"))
    }

    /// Returns the response that announces new mail, or an empty string.
    fn news(&mut self) -> String {
        let count = self.state.read(|state| state.mails.len());
        if count == self.told {
            return String::new();
        }
        self.told = count;
        format!("* {count} EXISTS\r\n")
    }

    fn select(&mut self, tag: &str, mailbox: &str) -> Next {
        if !matches!(words(mailbox).as_slice(), [name] if name.eq_ignore_ascii_case("INBOX")) {
            return Next::GoOn(format!("{tag} NO [NONEXISTENT] Mailbox doesn't exist\r\n"));
        }
        self.is_selected = true;
        let (count, validity, keywords) = self
            .state
            .read(|state| (state.mails.len(), state.uid_validity, state.keeps_keywords));
        self.told = count;
        let any = if keywords { r" \*" } else { "" };
        Next::GoOn(format!(
            "* FLAGS (\\Seen \\Flagged \\Deleted)\r\n* OK [PERMANENTFLAGS (\\Seen \\Flagged \\Deleted{any})] Flags.\r\n\
             * {count} EXISTS\r\n* 0 RECENT\r\n* OK [UIDVALIDITY {validity}] valid\r\n{tag} OK [READ-WRITE] done\r\n"
        ))
    }

    fn search(&mut self, tag: &str, query: &str) -> Next {
        let Some((without, since)) = wanted(query) else {
            return self.refuse(tag, "UID SEARCH", query);
        };
        let fits = |mail: &&StoredMail| {
            since.is_none_or(|since| mail.arrived >= since)
                && !without.iter().any(|flag| mail.flags.contains(*flag))
        };
        let found = self.state.read(|state| {
            let uids = state
                .mails
                .iter()
                .filter(fits)
                .map(|mail| format!(" {}", mail.uid));
            uids.collect::<String>()
        });
        Next::GoOn(format!(
            "* SEARCH{found}\r\n{}{tag} OK done\r\n",
            self.news()
        ))
    }

    /// Carries out a command on the mails of a set. Mails that are gone are left out.
    fn touch(&mut self, tag: &str, name: &str, rest: &str) -> Next {
        let (set, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let uids: Result<Vec<u32>, _> = set.split(',').map(str::parse).collect();
        let Ok(uids) = uids else {
            return self.refuse(tag, name, set);
        };
        // A server answers in any order; this one begins with the last mail.
        let said: Option<String> = self.state.change(|state| {
            let uids = uids.iter().rev();
            uids.map(|uid| touch_one(state, name, *uid, rest)).collect()
        });
        let Some(said) = said else {
            return self.refuse(tag, name, rest);
        };
        if name == "UID EXPUNGE" {
            self.told = self.state.read(|state| state.mails.len());
        }
        Next::GoOn(format!("{said}{}{tag} OK done\r\n", self.news()))
    }

    /// Announces new mail until the client ends the command.
    async fn idle(&mut self, tag: &str) -> io::Result<bool> {
        let mut changed = self.state.subscribe();
        self.send_line("+ idling\r\n").await?;
        let mut nudges = self.state.read(|state| state.nudges);
        let mut begun = Vec::new();
        loop {
            self.state.reached(|state| !state.is_stalled).await;
            let (count, now) = self.state.read(|state| (state.mails.len(), state.nudges));
            let news = if now == nudges {
                self.news()
            } else {
                format!("* {count} EXISTS\r\n")
            };
            nudges = now;
            if !news.is_empty() {
                self.send_line(&news).await?;
            }
            tokio::select! {
                ended = line_into(&mut self.reader, &mut begun) => {
                    let Some(word) = ended? else { return Ok(false) };
                    if word != "DONE" {
                        self.state.change(|state| state.violations.push(format!("IDLE ended with {word}")));
                        return Ok(false);
                    }
                    let fault = self.state.change(|state| state.begin("DONE"));
                    match fault {
                        Some(MailFault::Stall) => future::pending().await,
                        Some(_) => return Ok(false),
                        None => return self.send_line(&format!("{tag} OK done\r\n")).await.map(|()| true),
                    }
                }
                _ = changed.changed() => {}
            }
        }
    }
}

/// Carries out a command on one mail. Returns the response, or `None` if the command is unknown.
fn touch_one(state: &mut MailState, name: &str, uid: u32, rest: &str) -> Option<String> {
    let Some(place) = state.mails.iter().position(|mail| mail.uid == uid) else {
        return Some(String::new());
    };
    if name == "UID EXPUNGE" {
        if state.has_flag(uid, r"\Deleted") {
            state.mails.remove(place);
            return Some(format!("* {} EXPUNGE\r\n", place + 1));
        }
        return Some(String::new());
    }
    let mail = state.mails.get_mut(place)?;
    match name {
        "UID FETCH" => {
            fetched(mail, rest).map(|items| format!("* {} FETCH ({items})\r\n", place + 1))
        }
        "UID STORE" => {
            let flags = rest.strip_prefix("+FLAGS.SILENT (")?.strip_suffix(')')?;
            mail.flags.extend(flags.split(' ').map(str::to_owned));
            Some(String::new())
        }
        _ => {
            mail.copies.push(rest.trim_matches('"').to_owned());
            Some(String::new())
        }
    }
}

/// Parses a search into the flags that a mail must not have and the earliest day of arrival.
/// Returns `None` if a key is unknown.
fn wanted(query: &str) -> Option<(Vec<&str>, Option<NaiveDate>)> {
    let (mut without, mut since) = (Vec::new(), None);
    let mut words = query.split(' ');
    while let Some(word) = words.next() {
        match word {
            "UNSEEN" => without.push(r"\Seen"),
            "UNDELETED" => without.push(r"\Deleted"),
            "UNKEYWORD" => without.push(words.next()?),
            "SINCE" => since = Some(NaiveDate::parse_from_str(words.next()?, "%d-%b-%Y").ok()?),
            _ => return None,
        }
    }
    Some((without, since))
}

/// Returns the words of a command, without their quotes.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' if quoted => word.extend(letters.next()),
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    words
}

/// Returns the items of an answer to FETCH, or `None` if one is unknown.
fn fetched(mail: &StoredMail, items: &str) -> Option<String> {
    let text = String::from_utf8_lossy(&mail.raw);
    let head = text.find("\r\n\r\n").map_or(text.len(), |end| end + 4);
    let mut answer = format!("UID {}", mail.uid);
    for item in items
        .strip_prefix('(')?
        .strip_suffix(')')?
        .split(' ')
        .filter(|item| *item != "UID")
    {
        if item == "RFC822.SIZE" {
            write!(answer, " RFC822.SIZE {}", text.len()).ok()?;
            continue;
        }
        let (section, range) = item.strip_prefix("BODY.PEEK[")?.split_once(']')?;
        let whole = match section {
            "HEADER" => text.get(..head)?,
            "" => text.as_ref(),
            _ => return None,
        };
        let limit: usize = range.strip_prefix("<0.")?.strip_suffix('>')?.parse().ok()?;
        let part = whole.get(..limit.min(whole.len())).unwrap_or(whole);
        write!(answer, " BODY[{section}]<0> {{{}}}\r\n{part}", part.len()).ok()?;
    }
    Some(answer)
}
