//! Where the database and the broker are.

use amq_protocol_uri::AMQPUri;
use reqwest::Url;

use crate::{Reader, database};

impl Reader<'_> {
    pub(crate) fn database_url(&mut self) -> Option<String> {
        let url = self.text("DATABASE_URL")?;
        if let Err(problem) = database::check_url(&url) {
            self.wrong("DATABASE_URL", problem);
            return None;
        }
        if let Some((host, database::Encryption::None)) = database::on_network(&url) {
            let instead = "add ?sslmode=verify-full (or require, which does not check whose the \
                           certificate is)";
            self.credential_in_clear("DATABASE_URL", &host, instead);
        }
        Some(url)
    }

    pub(crate) fn amqp_url(&mut self, database_url: Option<&str>) -> Option<String> {
        self.settings.get("AMQP_URL")?;
        let url = self.text("AMQP_URL")?;
        for server in url.split(',').map(str::trim) {
            if server.parse::<AMQPUri>().is_err() {
                self.wrong(
                    "AMQP_URL",
                    "must be amqp:// or amqps:// and user:password@host/vhost, or several with commas \
                     between them",
                );
                return None;
            }
            if let Ok(server) = Url::parse(server)
                && server.scheme() == "amqp"
                && let Some(host) = server.host_str()
            {
                self.credential_in_clear("AMQP_URL", host, "begin it with amqps://");
            }
        }
        if database_url.is_some_and(|url| url.starts_with("sqlite://")) {
            self.wrong(
                "AMQP_URL",
                "needs PostgreSQL: set DATABASE_URL to postgres://.. or unset AMQP_URL",
            );
        }
        Some(url)
    }

    pub(crate) fn amqp_prefix(&mut self) -> Option<String> {
        let prefix = self.text("AMQP_PREFIX")?;
        let fits = prefix.len() <= 100
            && prefix
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if fits {
            return Some(prefix);
        }
        self.wrong("AMQP_PREFIX", "must be letters, digits, '-', '_' and '.'");
        None
    }
}
