//! Checks of the export store, of the journal of erasures in it, and of the mail server.

use config::Config;
use config::database::sqlite_file;
use platform::clock::Clock;
use process::journal::{JournalState, look};
use process::open_migrated;
use providers::exports::Exports;
use store::privacy_keys;
use workers::mail::Mailer;

use super::Finding;

/// Writes a small object to the export store, reads it and removes it.
pub async fn exports(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "export store";
    let exports = Exports::new(&config.privacy.exports);
    vec![match exports.probe(Clock::system().id()).await {
        Ok(true) => Finding::ok(CHECK, "written to, read from and tidied up"),
        Ok(false) => Finding::ok(CHECK, "no folder yet; the first export makes it"),
        Err(failure) => Finding::failed(
            CHECK,
            failure.to_string(),
            "Until it is mended requests for data wait; their deadline is 30 days.",
        ),
    }]
}

/// Compares the database with the journal of erasures. Nothing is said of a database that is not there
/// yet or cannot be opened: another check does.
pub async fn journal(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "journal of erasures";
    let url = &config.database_url;
    if sqlite_file(url).is_some_and(|file| !file.exists()) {
        return Vec::new();
    }
    let Ok(db) = open_migrated(url, 2).await else {
        return Vec::new();
    };
    let exports = Exports::new(&config.privacy.exports);
    let found = match privacy_keys::look(&db, config.privacy.key.as_ref()).await {
        Ok(Some(keys)) => Some(look(&db, &keys, &exports).await),
        // Without a key nothing was erased here, or the key is wrong, which the services say.
        Ok(None) | Err(_) => None,
    };
    db.close().await;
    let Some(found) = found else {
        return Vec::new();
    };
    vec![match found {
        Ok(state) if state.is_current() => Finding::ok(CHECK, state.to_string()),
        Ok(state) => Finding::failed(CHECK, state.to_string(), state.mend()),
        Err(error) => Finding::failed(CHECK, error.to_string(), JournalState::Unknown.mend()),
    }]
}

/// Connects to the mail server, logs in and names the sender, but sends no mail.
pub async fn mail(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "mail server";
    let Some(mailer) = Mailer::new(config) else {
        return vec![Finding::ok(CHECK, "not set: no mail is sent")];
    };
    vec![match mailer.probe().await {
        Ok(()) => Finding::ok(CHECK, "takes mail from MAIL_FROM; none was sent"),
        Err(failure) => Finding::failed(
            CHECK,
            failure.to_string(),
            "Check SMTP_URL: host, port, user, password and encryption; and MAIL_FROM, which the server must \
             let us send from.",
        ),
    }]
}
