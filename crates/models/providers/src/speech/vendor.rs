//! Vendors of speech to text and the protocol of each.
//!
//! Decision: a vendor is a row. A provider without a row is assumed to speak OpenAI's protocol, as
//! self-hosted servers do.

use super::Protocol;

/// Model used if neither the vendor's row nor the configuration names one.
const DEFAULT_MODEL: &str = "whisper-1";

/// A vendor of speech to text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vendor {
    /// Its name in the provider table.
    pub(super) name: &'static str,
    /// Its default model.
    pub(super) model: &'static str,
    pub(super) protocol: Protocol,
    /// Maximum size of a recording, in bytes, if the vendor documents one.
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

/// All vendors, the preferred first.
pub(super) const VENDORS: &[Vendor] = &[
    vendor("groq", "whisper-large-v3", Protocol::Form),
    vendor("openai", DEFAULT_MODEL, Protocol::Form),
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
    /// Returns the vendor for a row of the provider table.
    pub(super) fn of(name: &'static str) -> Self {
        let known = VENDORS.iter().find(|vendor| vendor.name == name);
        known
            .copied()
            .unwrap_or(vendor(name, DEFAULT_MODEL, Protocol::Form))
    }
}
