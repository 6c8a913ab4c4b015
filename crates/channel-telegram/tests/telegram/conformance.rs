//! The contract's own suite.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{Channel, SenderId, async_trait};
use nanobot_testkit::TelegramFake;
use nanobot_testkit::conformance::{self, ChannelHarness};
use nanobot_testkit::telegram::{Incoming, Pushed, TOKEN};
use serde_json::json;

use crate::support::{ann, channel, mallory};

struct Harness {
    fake: TelegramFake,
    channel: Arc<dyn Channel>,
    last: Option<Pushed>,
}

#[async_trait]
impl ChannelHarness for Harness {
    fn channel(&self) -> Arc<dyn Channel> {
        Arc::clone(&self.channel)
    }

    fn friend(&self) -> SenderId {
        "7|ann_x".into()
    }

    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.last = Some(self.fake.push(Incoming::private(&ann(), text)));
        Ok(())
    }

    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.fake.push(Incoming::private(&mallory(), text));
        Ok(())
    }

    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>> {
        let to_stranger = |call: &nanobot_testkit::telegram::Call| {
            call.params["chat_id"] == json!(66) || call.method.to_ascii_lowercase().starts_with("getfile")
        };
        Ok(self.fake.calls().into_iter().filter(to_stranger).map(|call| call.method).collect())
    }

    async fn offer_again(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn is_acknowledged(&mut self) -> anyhow::Result<bool> {
        Ok(self.fake.is_acknowledged(self.last.context("nothing was said")?))
    }

    async fn acknowledged(&mut self) -> anyhow::Result<()> {
        Ok(self.fake.wait_for_acknowledged(self.last.context("nothing was said")?).await?)
    }

    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>> {
        self.fake.wait_for("shown messages", |sent| (sent.len() >= count).then_some(())).await?;
        Ok(self.fake.texts_in(ann().id))
    }

    fn secrets(&self) -> Vec<String> {
        vec![TOKEN.to_owned()]
    }
}

#[tokio::test]
async fn the_channel_keeps_the_contract() {
    let open = async || {
        let fake = TelegramFake::start().await?;
        let channel = channel(&fake, &json!({}));
        Ok(Harness { fake, channel, last: None })
    };
    conformance::channel(open).await.unwrap();
}
