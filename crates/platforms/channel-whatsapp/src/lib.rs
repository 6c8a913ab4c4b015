//! WhatsApp, through a bridge.
