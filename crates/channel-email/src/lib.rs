//! E-mail: IMAP in, SMTP out.
