//! The contract's own suite.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, async_trait};
use nanobot_testkit::conformance::{
    self, Arranged, ChannelHarness, Credentials, Gap, IncomingFiles, Oddities, OutgoingFiles, Pairing, Pulse,
    Redelivery, Rivals, SampleFile, SendFault, SendFaults, Transport,
};
use nanobot_testkit::mail::{MailFault, PASSWORD, SentMail};
use nanobot_testkit::{MailFake, abilities};
use serde_json::{Value, json};

use crate::support::{ANN, MALLORY, channel, mail, note, shown};

struct Harness {
    fake: MailFake,
    channel: Arc<dyn Channel>,
    mails: u32,
    last: u32,
    said: String,
}

impl Harness {
    async fn open() -> anyhow::Result<Self> {
        let fake = MailFake::start().await?;
        let channel = channel(&fake, &keys());
        Ok(Self { fake, channel, mails: 0, last: 0, said: String::new() })
    }

    fn fresh_id(&mut self) -> String {
        self.mails += 1;
        format!("{}@friend.test", self.mails)
    }

    /// The friend's mail, noted for when it has to come again.
    fn say(&mut self, mail: String) {
        self.last = self.fake.push(mail.clone());
        self.said = mail;
    }

    fn sent_to(&self, person: &str) -> Vec<SentMail> {
        self.fake.sent().into_iter().filter(|mail| mail.to == [person]).collect()
    }
}

fn keys() -> Value {
    json!({
        "idleSeconds": 1, "allowedAttachmentTypes": ["*"], "maxBodyChars": 1_000_000, "maxAttachmentsPerEmail": 50,
    })
}

/// A mail with a file, its name and type as bad as the sender likes.
fn with_file(from: &str, id: &str, file: &SampleFile, text: &str) -> String {
    let name: String = file.name.chars().filter(|letter| !"\r\n\"".contains(*letter)).collect();
    let body: String = file.bytes.iter().map(|byte| format!("={byte:02X}=\r\n")).collect();
    mail(
        from,
        id,
        &format!(
            "Subject: a file\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=limit\r\n\r\n--limit\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\r\n{text}\r\n--limit\r\nContent-Type: {}\r\n\
             Content-Transfer-Encoding: quoted-printable\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\
             \r\n{body}\r\n--limit--\r\n",
            file.mime,
        ),
    )
}

#[async_trait]
impl ChannelHarness for Harness {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel)
    }

    fn friend(&self) -> SenderId {
        ANN.into()
    }

    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()> {
        let id = self.fresh_id();
        self.say(note(ANN, &id, text));
        Ok(())
    }

    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        let id = self.fresh_id();
        self.fake.push(note(MALLORY, &id, text));
        Ok(())
    }

    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        Ok(self.sent_to(MALLORY).into_iter().map(|mail| mail.raw).collect())
    }

    async fn offer_again(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn is_acknowledged(&mut self) -> anyhow::Result<bool> {
        Ok(self.fake.has_flag(self.last, r"\Seen"))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.wait_for_flag(self.last, r"\Seen").await?)
    }

    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>> {
        self.fake.wait_for_sent(count).await?;
        Ok(self.sent_to(ANN).iter().map(|mail| shown(&mail.raw).text).collect())
    }

    fn secrets(&self) -> Vec<String> {
        vec![PASSWORD.to_owned()]
    }

    abilities! {
        redelivery,
        rooms: "a mail is answered to its sender alone, whoever else got it",
        pairing,
        incoming_files,
        outgoing_files,
        send_faults,
        transport,
        pulse,
        draft_view: "a mail that was sent does not change",
        oddities,
        credentials,
        rivals,
    }
}

#[async_trait]
impl Redelivery for Harness {
    async fn reopen(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &keys()))
    }

    async fn repeat(&mut self) -> anyhow::Result<()> {
        self.say(self.said.clone());
        Ok(())
    }

    async fn friend_says_reversed(&mut self, earlier: &str, later: &str) -> anyhow::Result<()> {
        self.say(note(ANN, "later@friend.test", later));
        self.say(note(ANN, "earlier@friend.test", earlier));
        Ok(())
    }
}

#[async_trait]
impl Pairing for Harness {
    async fn stranger_was_told(&mut self) -> anyhow::Result<Vec<String>> {
        self.fake.wait_for_sent(1).await?;
        Ok(self.sent_to(MALLORY).iter().map(|mail| shown(&mail.raw).text).collect())
    }
}

#[async_trait]
impl IncomingFiles for Harness {
    async fn friend_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()> {
        let id = self.fresh_id();
        self.say(with_file(ANN, &id, file, text));
        Ok(())
    }

    async fn stranger_sends(&mut self, file: &SampleFile, text: &str) -> anyhow::Result<()> {
        let id = self.fresh_id();
        self.fake.push(with_file(MALLORY, &id, file, text));
        Ok(())
    }

    async fn downloads(&mut self) -> anyhow::Result<usize> {
        Ok(0)
    }

    async fn break_next_download(&mut self) -> anyhow::Result<Arranged> {
        Ok(Arranged::Impossible("files come within their mail"))
    }
}

#[async_trait]
impl OutgoingFiles for Harness {
    async fn friend_got_files(&mut self, count: usize) -> anyhow::Result<Vec<SampleFile>> {
        self.fake.wait_for_sent(1).await?;
        let files = self.sent_to(ANN).into_iter().flat_map(|mail| shown(&mail.raw).files);
        let files: Vec<_> = files.map(|(name, mime, bytes)| SampleFile { name, mime, bytes }).collect();
        (files.len() >= count).then_some(files).context("files are missing")
    }

    fn largest_file(&self) -> u64 {
        18_000_000
    }
}

#[async_trait]
impl SendFaults for Harness {
    async fn next_send(&mut self, fault: SendFault) -> anyhow::Result<Arranged> {
        let answer = |text: &str| MailFault::Answer(text.to_owned());
        let (command, fault) = match fault {
            SendFault::RateLimited(_) => return Ok(Arranged::Impossible("no answer of SMTP names a pause")),
            SendFault::Broken => ("MAIL", answer("451 4.3.0 local error in processing")),
            SendFault::CutAfterEffect => ("CONTENT", MailFault::CutAfterEffect),
            SendFault::Refused => ("CONTENT", answer("554 5.7.1 this looks like spam")),
            SendFault::ChatGone => ("RCPT", answer("550 5.1.1 no such mailbox")),
            SendFault::TooLarge => ("CONTENT", answer("552 5.3.4 the message is too big")),
            SendFault::Unauthorized => ("AUTH", answer("535 5.7.8 authentication failed")),
        };
        self.fake.fail_next(command, fault);
        Ok(Arranged::Done)
    }
}

#[async_trait]
impl Transport for Harness {
    async fn cut(&mut self) -> anyhow::Result<()> {
        self.fake.cut();
        Ok(())
    }

    async fn go_down(&mut self) -> anyhow::Result<Arranged> {
        self.fake.go_down().await?;
        Ok(Arranged::Done)
    }

    async fn come_back(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.come_back().await?)
    }
}

#[async_trait]
impl Pulse for Harness {
    async fn beat(&mut self) -> anyhow::Result<()> {
        self.fake.nudge();
        Ok(())
    }

    async fn stall(&mut self) -> anyhow::Result<()> {
        self.fake.stall(true);
        Ok(())
    }

    async fn recover(&mut self) -> anyhow::Result<()> {
        self.fake.stall(false);
        Ok(())
    }
}

#[async_trait]
impl Oddities for Harness {
    async fn send_oddities(&mut self) -> anyhow::Result<usize> {
        let odd = [
            String::new(),
            "\r\n".to_owned(),
            "no header at all".to_owned(),
            "From: \r\n\r\n".to_owned(),
            mail("nobody", "odd1@x.test", "\r\nx"),
            mail(ANN, "odd2@x.test", &format!("From: {MALLORY}\r\n\r\ntwo senders")),
            format!("From: {ANN}\r\n\r\nnobody vouches for me"),
            mail(ANN, "odd3@x.test", "Auto-Submitted: auto-replied\r\n\r\nI am away"),
            mail("mailer-daemon@friend.test", "odd4@x.test", "\r\nundeliverable"),
            "\0\u{1}\u{2}".repeat(100),
        ];
        let count = odd.len();
        for mail in odd {
            self.fake.push(mail);
        }
        Ok(count)
    }
}

#[async_trait]
impl Credentials for Harness {
    async fn revoke(&mut self) -> anyhow::Result<()> {
        self.fake.change_password("another one");
        // A connection that is open stays open.
        self.fake.cut();
        Ok(())
    }

    async fn restore(&mut self) -> anyhow::Result<()> {
        self.fake.change_password(PASSWORD);
        Ok(())
    }
}

#[async_trait]
impl Rivals for Harness {
    async fn rival(&mut self) -> anyhow::Result<Arc<dyn Channel>> {
        Ok(channel(&self.fake, &keys()))
    }

    fn tells(&self) -> Arranged {
        Arranged::Impossible("any number of programs may look into a mailbox, and none hears of the others")
    }
}

#[tokio::test]
async fn the_channel_keeps_the_contract() {
    let gaps = conformance::channel(Harness::open).await.unwrap();
    let gap = |ability, reason| Gap { ability, reason };
    let expected = [
        gap("rooms", "a mail is answered to its sender alone, whoever else got it"),
        gap("draft view", "a mail that was sent does not change"),
        gap("rivals: told", "any number of programs may look into a mailbox, and none hears of the others"),
        gap("send faults: rate limited", "no answer of SMTP names a pause"),
    ];
    assert_eq!(gaps, expected);
}
