//! Receives: over the socket, and by polls while there is none.
//!
//! Mochat confirms nothing and forgets nothing: the channel keeps its positions itself. A message
//! that cannot be stored at the moment is kept and offered again here.

use std::sync::Arc;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::Rejection;
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::push::{PushEnd, PushPlatform};

use crate::channel::Mochat;
use crate::connection::Connection;
use crate::error::required_call_error;
use crate::news::{NewsReceipt, TargetNews};
use crate::target::Target;

impl PushPlatform for Mochat {
    const NAME: &'static str = "Mochat";
    type Connection = Connection;

    async fn connect(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> Result<Connection, ChannelError> {
        self.config.check_targets()?;
        let has_panels = self.config.discovers_panels();
        let listed = self.api.directory(has_panels).await;
        let directory = listed.map_err(required_call_error)?;
        self.targets.add(&directory, &self.config);
        self.note_panels().await?;
        self.targets.write(context.notes.as_ref()).await;
        Connection::open(self).await.map_err(|end| match end {
            PushEnd::Final(error) => error,
            PushEnd::Lost(why) => ChannelError::Unavailable(why),
        })
    }

    fn renew(&self) {
        self.api.rest.renew();
    }

    fn lane(&self, news: &TargetNews) -> String {
        news.target.key()
    }

    async fn handle(&self, news: TargetNews, context: &ChannelContext) -> (NewsReceipt, Next) {
        self.handle_news(news, context).await
    }

    fn rejection(&self) -> &Rejection {
        &self.rejection
    }
}

impl Mochat {
    /// Returns targets with their positions, as a subscription needs them.
    pub(crate) fn positions(&self, targets: &[Target]) -> Vec<(Target, Option<u64>)> {
        let position = |target: &Target| match target {
            Target::Session(session) => self.targets.cursor(session),
            Target::Panel(_) => None,
        };
        let targets = targets.iter();
        targets
            .map(|target| (target.clone(), position(target)))
            .collect()
    }

    /// Passes over the history of panels without a position, before they are subscribed to: what
    /// comes from now on is new.
    async fn note_panels(&self) -> Result<(), ChannelError> {
        for target in self.targets.all() {
            let Target::Panel(panel) = target else {
                continue;
            };
            if !self.targets.is_cold_panel(&panel) {
                continue;
            }
            match self.api.panel_page(&panel).await {
                Ok(page) => self.targets.skip_history(&panel, &page),
                Err(error) if error.is(|refusal| !refusal.is_about_the_token()) => {
                    tracing::warn!(channel = %self.base.name, panel, %error, "a panel cannot be read");
                }
                Err(error) => return Err(required_call_error(error)),
            }
        }
        Ok(())
    }
}
