//! E-mail: letters from two people.

use async_trait::async_trait;
use nanobot_channel_email_fake::{self as mail, MailFake};
use serde_json::{Value, json};

use crate::error::FakeError;
use crate::fake::{ANSWER_PREFIX, ChatFake, Fault, Place, question};

const ANN: Place = Place::of("email", "ann@people.test");
const BOB: Place = Place::of("email", "bob@people.test");

#[derive(Debug)]
pub(crate) struct MailChats {
    fake: MailFake,
}

impl MailChats {
    pub(crate) async fn start() -> Result<Self, FakeError> {
        let fake = MailFake::start().await?;
        Ok(Self { fake })
    }
}

#[async_trait]
impl ChatFake for MailChats {
    fn name(&self) -> &'static str {
        "email"
    }

    fn section(&self) -> Value {
        json!({
            "enabled": true, "consentGranted": true, "allowFrom": [ANN.chat, BOB.chat],
            "imapHost": "127.0.0.1", "imapPort": self.fake.imap_port(), "imapUsername": mail::USER,
            "imapPassword": mail::PASSWORD, "imapUseSsl": false, "imapUseTls": false,
            "smtpHost": "127.0.0.1", "smtpPort": self.fake.smtp_port(), "smtpUsername": mail::USER,
            "smtpPassword": mail::PASSWORD, "smtpUseTls": false, "fromAddress": "Nano <bot@bot.test>",
            "pollIntervalSeconds": 5, "requestTimeout": 10, "authservId": "mx.bot.test",
        })
    }

    fn places(&self) -> Vec<Place> {
        vec![ANN, BOB]
    }

    fn faults(&self) -> Vec<Fault> {
        vec![Fault::Down, Fault::Silent, Fault::CutsSends]
    }

    async fn begin(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.go_down().await?,
            Fault::Silent => self.fake.stall(true),
            Fault::CutsSends => self
                .fake
                .fail_next("CONTENT", mail::MailFault::CutAfterEffect),
            _ => return Err(FakeError::NoSuchFault(self.name(), fault)),
        }
        Ok(())
    }

    async fn end(&mut self, fault: Fault) -> Result<(), FakeError> {
        match fault {
            Fault::Down => self.fake.come_back().await?,
            Fault::Silent => self.fake.stall(false),
            _ => {}
        }
        Ok(())
    }

    fn say(&mut self, place: Place, token: &str, _noise: Option<&str>) -> Vec<String> {
        self.fake.push(letter(place.chat, token, &question(token)));
        vec![token.to_owned()]
    }

    fn crowd_says(&self, number: u32, token: &str) {
        let from = format!("crowd{number}@people.test");
        self.fake.push(letter(&from, token, &question(token)));
    }

    fn shown(&self, place: Place) -> Vec<String> {
        let sent = self.fake.sent().into_iter();
        let is_for = |to: &String| to.contains(place.chat);
        sent.filter(|mail| mail.to.iter().any(is_for))
            .map(|mail| words(&mail.raw))
            .collect()
    }

    fn calls(&self) -> Vec<String> {
        self.fake.commands()
    }

    fn violations(&self) -> Vec<String> {
        self.fake.violations()
    }
}

/// Returns a mail as the own mail server delivers it, with its report about the sender.
fn letter(from: &str, token: &str, text: &str) -> String {
    format!(
        "Return-Path: <{from}>\r\nAuthentication-Results: mx.bot.test; dkim=pass header.d=people.test;\r\n spf=pass \
         smtp.mailfrom=people.test\r\nFrom: {from}\r\nTo: bot@bot.test\r\nDate: Mon, 2 Nov 2026 10:00:00 +0100\r\n\
         Message-ID: <{token}@people.test>\r\nSubject: A question\r\n\r\n{text}\r\n"
    )
}

/// Returns the answer in a mail, or all of it if there is no answer.
fn words(raw: &str) -> String {
    raw.lines()
        .find(|line| line.starts_with(ANSWER_PREFIX))
        .unwrap_or(raw)
        .to_owned()
}
