//! The text of a notification for the person who gets it.

use config::Config;
use config::connection::{Mailbox, Registry, StorefrontConnection};
use domain::connection::DEFAULT;
use domain::notification::{Mail, PaymentFailed};
use qr::parse_amount;
use serde_json::{Map, Value, json};
use store::notifications::{self, Letter};
use store::sql::{Db, Result};

/// The provider tries such a payment again by a schedule of its own, which it does not tell us.
const TRIED_BY_PROVIDER: &str = "It may be tried again automatically in the next days; \
                                 we do not write to you again about each try.";

/// The mail as the customer reads it.
pub fn mail(letter: &Letter, config: &Config, connections: &Registry) -> Mail {
    let order = letter.order.as_ref();
    let name = order.map(|it| it.name.clone().unwrap_or_else(|| it.key.1.to_string()));
    let retry = letter.next_retry_at;
    let retry = retry.map(|at| format!("We will try again on {}.", at.in_words()));
    let retry = retry.or_else(|| {
        letter
            .is_left_to_provider
            .then(|| TRIED_BY_PROVIDER.to_owned())
    });
    let page = order.filter(|_| config.public_pages);
    let amount = letter.amount.to_string();
    let page = page.and_then(|order| {
        let order_id = order.key.1.to_string();
        let currency = letter.amount.currency.as_str();
        let hundredths = parse_amount(&amount).ok()?;
        let qr = config.qr.opened_by(letter.page_code.as_deref());
        qr.payment(&order_id, hundredths, currency).ok()
    });
    let connection = of_letter(letter, connections);
    let connection = connection.map_or(DEFAULT, |it| it.name.as_str());
    let failed_payment = PaymentFailed {
        amount: letter.amount,
        order: name.as_deref(),
        decline_code: letter.decline_code.as_deref(),
        pay_url: page.as_ref().map(|page| page.url.as_str()),
        retry: retry.as_deref(),
    };
    config.templates.payment_failed(connection, &failed_payment)
}

/// Who writes it, if that is not whom the settings name.
pub fn sender<'a>(letter: &Letter, connections: &'a Registry) -> Option<&'a Mailbox> {
    of_letter(letter, connections)?.sender.as_ref()
}

/// The connection of the shop whose order a mail is about.
fn of_letter<'a>(letter: &Letter, connections: &'a Registry) -> Option<&'a StorefrontConnection> {
    let order = letter.order.as_ref()?;
    Some(connections.of_shop(&order.key.0))
}

/// Adds the address, the subject and the text of a notification to its JSON.
pub async fn as_read(
    db: &Db,
    config: &Config,
    connections: &Registry,
    row: &mut Map<String, Value>,
) -> Result<()> {
    let id = row.get("id").and_then(Value::as_str);
    let Some(id) = id.and_then(|id| id.parse().ok()) else {
        return Ok(());
    };
    if let Some(letter) = notifications::letter(db, id).await? {
        let mail = mail(&letter, config, connections);
        row.insert("email".to_owned(), json!(letter.email));
        row.insert("subject".to_owned(), json!(mail.subject));
        row.insert("text".to_owned(), json!(mail.body));
    }
    Ok(())
}
