//! Who turns speech into text, and in which shape each of them is asked.
//!
//! Decision: a vendor is a row. A provider that is no row here is asked as OpenAI is, which is what
//! servers of one's own speak.

use super::Protocol;

/// What is asked for where neither the vendor nor the configuration names a model.
const USUAL_MODEL: &str = "whisper-1";

/// One vendor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vendor {
    /// Its name in the table of providers.
    pub(super) name: &'static str,
    /// The model that it is asked for.
    pub(super) model: &'static str,
    pub(super) protocol: Protocol,
    /// The largest recording that it takes, in bytes, where it says so.
    pub(super) largest: Option<u64>,
}

const fn vendor(name: &'static str, model: &'static str, protocol: Protocol) -> Vendor {
    Vendor {
        name,
        model,
        protocol,
        largest: None,
    }
}

/// All of them, the preferred first.
pub(super) const VENDORS: &[Vendor] = &[
    vendor("groq", "whisper-large-v3", Protocol::Form),
    vendor("openai", USUAL_MODEL, Protocol::Form),
    vendor("openrouter", "openai/whisper-1", Protocol::Inline),
    vendor("siliconflow", "FunAudioLLM/SenseVoiceSmall", Protocol::Form),
    // Ten megabytes of base64.
    Vendor {
        largest: Some(7_500_000),
        ..vendor("xiaomi_mimo", "mimo-v2.5-asr", Protocol::Chat)
    },
    vendor("stepfun", "stepaudio-2.5-asr", Protocol::Events),
    vendor("assemblyai", "universal-3-pro,universal-2", Protocol::Job),
];

impl Vendor {
    /// The vendor behind a row of the table of providers.
    pub(super) fn of(name: &'static str) -> Self {
        let known = VENDORS.iter().find(|vendor| vendor.name == name);
        known
            .copied()
            .unwrap_or(vendor(name, USUAL_MODEL, Protocol::Form))
    }
}
