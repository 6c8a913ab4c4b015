//! Makes exchanges with a model: `exchange provider URL TIMES` through the provider layer,
//! `exchange bare URL BODY TIMES` with a bare client, which posts a body and reads the answer.
//!
//! Both drop what they receive. The bare client is as lean as possible for a server on this machine:
//! no certificates, no proxy, one thread.

#[cfg(target_os = "linux")]
fn main() -> anyhow::Result<()> {
    exchange::run()
}

#[cfg(not(target_os = "linux"))]
fn main() -> anyhow::Result<()> {
    anyhow::bail!("measuring needs Linux")
}

#[cfg(target_os = "linux")]
mod exchange {
    use std::env::Args;
    use std::iter::Skip;
    use std::sync::Arc;

    use anyhow::{Context as _, Result, bail};
    use futures_util::StreamExt as _;
    use nanobot_provider::{ChatRequest, Generation, ToolChoice, TurnMemo};
    use nanobot_providers::{HttpClients, ProviderSettings, ProviderSpec, Selection, build};
    use nanobot_types::{ChatMessage, Transcript};

    /// Length of the question in bytes.
    const QUESTION: usize = 2_048;

    pub(super) fn run() -> Result<()> {
        let mut arguments = std::env::args().skip(1);
        if rustls::crypto::ring::default_provider()
            .install_default()
            .is_err()
        {
            bail!("a cryptography provider was already installed");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        match arguments.next().as_deref() {
            Some("provider") => runtime.block_on(provider(arguments)),
            Some("bare") => runtime.block_on(bare(arguments)),
            _ => bail!("usage: exchange provider URL TIMES | bare URL BODY TIMES"),
        }
    }

    async fn provider(mut arguments: Skip<Args>) -> Result<()> {
        let settings = ProviderSettings {
            api_base: arguments.next(),
            ..ProviderSettings::default()
        };
        let selection = Selection {
            name: "vllm".into(),
            spec: ProviderSpec::find("vllm").context("no such vendor")?,
        };
        let connection = build(
            &selection,
            &settings,
            "model",
            Arc::new(HttpClients::default()),
        )?;
        let question = Arc::new(ChatMessage::user("x".repeat(QUESTION)));
        let request = ChatRequest {
            model: connection.model,
            system: "".into(),
            transcript: Transcript::repair([question]).transcript,
            tools: Arc::new([]),
            tool_choice: ToolChoice::None,
            generation: Generation::default(),
            cache_key: None,
            estimated_tokens: None,
            memo: TurnMemo::default(),
        };
        for _ in 0..times(arguments)? {
            let mut events = connection.provider.stream(request.clone()).await?;
            while let Some(event) = events.next().await {
                event?;
            }
        }
        Ok(())
    }

    async fn bare(mut arguments: Skip<Args>) -> Result<()> {
        let url = arguments.next().context("no URL")?;
        let body = std::fs::read(arguments.next().context("no body")?)?;
        let client = reqwest::Client::builder()
            .tcp_nodelay(true)
            .no_proxy()
            .tls_certs_only([])
            .build()?;
        for _ in 0..times(arguments)? {
            let request = client
                .post(&url)
                .header("content-type", "application/json")
                .body(body.clone());
            let mut response = request.send().await?.error_for_status()?;
            while response.chunk().await?.is_some() {}
        }
        Ok(())
    }

    fn times(mut arguments: Skip<Args>) -> Result<u32> {
        Ok(arguments.next().context("no number")?.parse()?)
    }
}
