//! Checks of the export store and of the mail server.

use config::Config;
use platform::clock::Clock;
use providers::exports::Exports;
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
