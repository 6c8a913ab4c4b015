//! The outside world: fakes of a chat platform and a model that outlive the program.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel_telegram_fake::{Incoming, Person, Pushed, TOKEN, TelegramFake};
use nanobot_testkit::{ModelServer, TestkitError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::history::{History, HistoryEvent};
use crate::script::{SINK, answer, chat_of_request};
use crate::stage::Stage;
use crate::system::{Endpoints, System};

/// Both fakes of a round, or of a fork.
#[derive(Debug)]
pub(crate) struct World {
    telegram: TelegramFake,
    model: ModelServer,
    history: Option<Arc<History>>,
    asked: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    seen: Mutex<RecordedCounts>,
}

/// Numbers of observations that are already in the history.
#[derive(Debug, Default)]
struct RecordedCounts {
    sent: usize,
    violations: usize,
    effects: usize,
}

impl World {
    /// Starts both fakes. Their observations go into the history if there is one.
    pub(crate) async fn start(
        stage: &Stage,
        system: Arc<dyn System>,
        history: Option<Arc<History>>,
    ) -> Result<Self, TestkitError> {
        let page = stage.page();
        stage.run(Self::open(system, page, history)).await
    }

    async fn open(
        system: Arc<dyn System>,
        page: String,
        history: Option<Arc<History>>,
    ) -> Result<Self, TestkitError> {
        let telegram = TelegramFake::start().await?;
        let asked = Arc::new(Mutex::new(BTreeMap::<String, Vec<String>>::new()));
        let (notes, record) = (Arc::clone(&asked), history.clone());
        let model = ModelServer::answering(move |request| {
            let chat = chat_of_request(request).unwrap_or_default();
            let body = String::from_utf8_lossy(&request.http.body).into_owned();
            match &record {
                Some(history) => history.add(|life| HistoryEvent::Asked { life, chat, body }),
                None => {
                    notes
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .entry(chat.to_string())
                        .or_default()
                        .push(body);
                }
            }
            answer(&*system, &page, request)
        })
        .await?;
        Ok(Self {
            telegram,
            model,
            history,
            asked,
            seen: Mutex::default(),
        })
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        Endpoints {
            telegram: self.telegram.api_base(),
            token: TOKEN.to_owned(),
            model: self.model.base_url(),
        }
    }

    /// Creates chats with nothing to answer in them: their first messages are acknowledged before
    /// the program starts.
    pub(crate) async fn open_chats(
        &self,
        chats: impl IntoIterator<Item = i64>,
    ) -> Result<(), TestkitError> {
        let mut offset = 0;
        for chat in chats.into_iter().chain([SINK]) {
            let pushed = self
                .telegram
                .push(Incoming::private(&person(chat), "hello"));
            offset = pushed.update_id.map_or(offset, |id| id + 1);
        }
        let address = self.telegram.server().address();
        confirm_updates(address, offset)
            .await
            .map_err(TestkitError::Listen)
    }

    /// Sends a text as a user.
    pub(crate) fn push(&self, chat: i64, text: &str) -> Pushed {
        self.telegram.push(Incoming::private(&person(chat), text))
    }

    /// Waits until the fakes have processed everything that a process had sent before it died.
    pub(crate) async fn settled(&self) -> Result<(), TestkitError> {
        self.telegram.server().settled().await?;
        self.model.server().settled().await
    }

    pub(crate) fn acknowledged(&self) -> i64 {
        self.telegram.acknowledged_offset()
    }

    /// Adds the fakes' new observations to the history.
    pub(crate) fn observe(&self, effects: &[String]) {
        let Some(history) = &self.history else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (sent, violations) = (self.telegram.sent(), self.model.violations());
        for message in sent.iter().skip(seen.sent) {
            history.add(|life| HistoryEvent::Sent {
                life,
                chat: message.chat_id,
                text: message.text.clone(),
            });
        }
        for what in violations.iter().skip(seen.violations) {
            history.add(|life| HistoryEvent::Violation {
                life,
                what: what.clone(),
            });
        }
        for token in effects.iter().skip(seen.effects) {
            history.add(|life| HistoryEvent::Effect {
                life,
                token: token.clone(),
            });
        }
        *seen = RecordedCounts {
            sent: sent.len(),
            violations: violations.len(),
            effects: effects.len(),
        };
        history.add(|life| HistoryEvent::Acknowledged {
            life,
            offset: self.acknowledged(),
        });
    }

    /// Returns all messages sent so far, by chat.
    pub(crate) fn sent(&self) -> BTreeMap<String, Vec<String>> {
        let mut chats = BTreeMap::<String, Vec<String>>::new();
        for message in self.telegram.sent() {
            chats
                .entry(message.chat_id.to_string())
                .or_default()
                .push(message.text);
        }
        chats
    }

    /// Returns all requests so far, by chat, if there is no history.
    pub(crate) fn asked(&self) -> BTreeMap<String, Vec<String>> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn person(chat: i64) -> Person {
    Person::new(chat, format!("Person {chat}"), format!("person{chat}"))
}

/// Confirms every update below an offset, as a poll by the bot does.
async fn confirm_updates(address: SocketAddr, offset: i64) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET /bot{TOKEN}/getUpdates?offset={offset}&timeout=0 HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.map(drop)
}
