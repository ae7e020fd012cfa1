//! The URL of the database, which names a PostgreSQL server or a SQLite file: what it says, without
//! connecting to it. `store::sql` opens what is read here.

use std::path::PathBuf;
use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::sqlite::SqliteConnectOptions;

/// What stands between a process and a PostgreSQL server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Nothing, or a pooler that keeps one of the server's connections for each of ours.
    Session,
    /// A pooler that gives each transaction another connection of the server. So nothing lasts longer than
    /// a transaction: no setting, no prepared statement, no lock.
    Transaction,
}

/// Checks whether a URL names a database, without connecting to it. The error says what is wrong.
pub fn check_url(url: &str) -> Result<(), &'static str> {
    let fits = if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        postgres_options(url).is_ok()
    } else if url.starts_with("sqlite://") {
        SqliteConnectOptions::from_str(url).is_ok()
    } else {
        return Err("must start with postgres:// or sqlite://");
    };
    if fits {
        Ok(())
    } else {
        Err("is not a URL that can be read")
    }
}

/// Which database a URL names, in words for people: its place and its name, and no credentials.
pub fn place(url: &str) -> String {
    if let Ok((options, _)) = postgres_options(url)
        && !url.starts_with("sqlite:")
    {
        let name = options.get_database().unwrap_or("its user's own");
        if let Some(socket) = options.get_socket() {
            return format!("the database {name} at {}", socket.display());
        }
        let (host, port) = (options.get_host(), options.get_port());
        return format!("the database {name} at {host}:{port}");
    }
    match SqliteConnectOptions::from_str(url) {
        Ok(options) => format!("the database {}", options.get_filename().display()),
        Err(_) => "the database".to_owned(),
    }
}

/// How a connection to a PostgreSQL server is protected on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// The connection is not encrypted, or somebody on the network can prevent its encryption.
    None,
    /// Nobody can listen, but somebody on the network can pose as the server.
    Unverified,
    Verified,
}

/// The server's host and the protection of the connection. `None` for a SQLite file and for a
/// socket on this machine.
pub fn on_network(url: &str) -> Option<(String, Encryption)> {
    let is_server = url.starts_with("postgres://") || url.starts_with("postgresql://");
    let (options, _) = postgres_options(url).ok().filter(|_| is_server)?;
    let host = options.get_host().to_owned();
    if options.get_socket().is_some() || host.starts_with('/') {
        return None;
    }
    let encryption = match options.get_ssl_mode() {
        PgSslMode::Disable | PgSslMode::Allow | PgSslMode::Prefer => Encryption::None,
        PgSslMode::Require => Encryption::Unverified,
        PgSslMode::VerifyCa | PgSslMode::VerifyFull => Encryption::Verified,
    };
    Some((host, encryption))
}

/// True for a URL that says that a pooler gives each transaction another connection of the server.
pub fn is_pooled(url: &str) -> bool {
    sqlite_file(url).is_none()
        && postgres_options(url).is_ok_and(|(_, pooling)| pooling == Pooling::Transaction)
}

/// The file of a SQLite database. None for a PostgreSQL server.
pub fn sqlite_file(url: &str) -> Option<PathBuf> {
    let options = SqliteConnectOptions::from_str(url).ok();
    let options = options.filter(|_| url.starts_with("sqlite://"))?;
    Some(options.get_filename().to_owned())
}

/// Reads the URL of a server. `pgbouncer=true` declares a pooler of transactions, as it does for other
/// clients; it is not sent to the server.
pub fn postgres_options(url: &str) -> sqlx::Result<(PgConnectOptions, Pooling)> {
    let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
    let mut pooling = Pooling::Session;
    let mut others = Vec::new();
    for parameter in parameters.split('&').filter(|it| !it.is_empty()) {
        match parameter.split_once('=') {
            Some(("pgbouncer", "true")) => pooling = Pooling::Transaction,
            Some(("pgbouncer", "false")) => pooling = Pooling::Session,
            Some(("pgbouncer", _)) => {
                return Err(sqlx::Error::Configuration(
                    "pgbouncer must be true or false".into(),
                ));
            }
            _ => others.push(parameter),
        }
    }
    let url = format!("{place}?{}", others.join("&"));
    // A pooler does not know this parameter, and refuses the connection. Numbers come in binary anyway.
    let options = PgConnectOptions::from_str(&url)?.extra_float_digits(None);
    let options = match pooling {
        Pooling::Session => options,
        Pooling::Transaction => options.statement_cache_capacity(0),
    };
    Ok((options, pooling))
}
