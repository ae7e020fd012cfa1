//! Runs the operator's command beside a running service, and makes dead jobs for it.

use std::process::{Command, Output};

use platform::token::Token;
use providers::exports::ExportStore;
use serde_json::Value;

use super::Service;
use super::delivery::order;
use super::order::post_all;
use super::process::{command, run};

/// The command with the settings that lead to a service's database and broker.
pub fn waybill(service: &Service, arguments: &[&str]) -> Command {
    let mut command = command("waybill", &[("PATH", "/usr/bin:/bin")]);
    command.env("DATABASE_URL", &service.backend.database_url);
    if let Some(url) = &service.backend.amqp_url {
        command.env("AMQP_URL", url);
        command.env("AMQP_PREFIX", &service.backend.name);
    }
    if let Some(key) = &service.parts.config.privacy.key {
        command.env("PRIVACY_KEY", key.expose());
    }
    let keys = service.parts.config.secrets_keys.iter();
    let keys: Vec<&str> = keys.map(Token::expose).collect();
    if !keys.is_empty() {
        command.env("SECRETS_KEY", keys.join(","));
    }
    if let Some(provider) = &service.parts.config.payment.api {
        command.env("PAYMENT_API_URL", provider.url.as_str());
        command.env("PAYMENT_API_KEY", provider.token.expose());
    }
    command.env("PRIVACY_EXPORT_URL", backend_exports(service));
    command.args(arguments);
    command
}

/// Where the service keeps its exports, if that is a folder.
fn backend_exports(service: &Service) -> String {
    match &service.parts.config.privacy.exports {
        ExportStore::Folder(folder) => format!("file://{}", folder.display()),
        ExportStore::S3(_) => service.backend.export_url(),
    }
}

pub async fn ran(service: &Service, arguments: &[&str]) -> Output {
    run(waybill(service, arguments)).await
}

/// What it says, when it succeeds.
pub async fn said(service: &Service, arguments: &[&str]) -> String {
    let output = ran(service, arguments).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it says that is wrong, and its exit code.
pub async fn refused(service: &Service, arguments: &[&str]) -> (i32, String) {
    let output = ran(service, arguments).await;
    let error = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), error)
}

/// What it prints for machines, whether it succeeds or not.
pub async fn json(service: &Service, arguments: &[&str]) -> Value {
    parsed(&ran(service, &[arguments, &["--json"]].concat()).await)
}

/// The rows of a list.
pub async fn items(service: &Service, arguments: &[&str]) -> Value {
    json(service, arguments).await["items"].take()
}

pub fn parsed(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON: {error}"))
}

/// Posts so many orders to a service without workers, and leaves them as a worker does that has
/// given them up.
pub async fn dead_orders(service: &Service, orders: u64) {
    let deliveries: Vec<_> = (1..=orders)
        .map(|seed| order("orders/create", seed).id(&format!("w-{seed}")))
        .collect();
    post_all(service, &deliveries).await;
    service
        .execute(
            "update jobs set state = 'dead', attempts = 12, finished_at = created_at + 5,
                    last_error = 'the shelf is away'
             where state = 'ready' and kind = 'orders/create'",
        )
        .await;
}

/// What the broker shows as dead letters.
pub async fn dead_letters(service: &Service) -> u32 {
    let url = service.backend.amqp_url.as_ref().unwrap();
    let properties = lapin::ConnectionProperties::default();
    let connection = lapin::Connection::connect(url, properties).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let options = lapin::options::QueueDeclareOptions {
        passive: true,
        ..lapin::options::QueueDeclareOptions::default()
    };
    let name = format!("{}.dead", service.backend.name);
    let queue = channel.queue_declare(name.into(), options, lapin::types::FieldTable::default());
    queue.await.unwrap().message_count()
}
