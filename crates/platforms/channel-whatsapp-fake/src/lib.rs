//! A fake of the WhatsApp bridge.
