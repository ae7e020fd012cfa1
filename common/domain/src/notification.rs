//! Mails to buyers, as text. Pure, except for [`Templates::load`], which reads an operator's own
//! templates.
//!
//! A template is a file with a line `Subject: ..`, an empty line, and the text. `{{name}}` stands
//! for a value. The text of a value is never searched for placeholders, and no value can begin a
//! new line, neither in the text nor among the headers.

mod template;

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::connection::{DEFAULT, check_name};
use crate::money::Money;

pub use template::{Mail, Template, TemplateError};

/// A kind of mail that Waybill sends.
struct Kind {
    /// The name of the template's file in an operator's folder.
    file: &'static str,
    placeholders: &'static [&'static str],
    built_in: &'static str,
}

const KINDS: [&Kind; 1] = [&PAYMENT_FAILED];

const PAYMENT_FAILED: Kind = Kind {
    file: "payment_failed.txt",
    placeholders: &["amount", "order", "reason", "pay_url", "retry"],
    built_in: include_str!("../templates/payment_failed.txt"),
};

/// The templates that are in use.
#[derive(Clone, Debug)]
pub struct Templates {
    payment_failed: Template,
    /// The templates that a connection has of its own, by its name.
    of_connections: BTreeMap<String, Template>,
}

/// The values for a mail about a failed payment.
#[derive(Clone, Debug)]
pub struct PaymentFailed<'a> {
    pub amount: Money,
    /// The order's name or id, if the payment has an order.
    pub order: Option<&'a str>,
    /// The provider's code for the reason of the failure.
    pub decline_code: Option<&'a str>,
    /// The page on which the buyer can pay.
    pub pay_url: Option<&'a str>,
    /// A sentence that says when the payment is tried again, if it is.
    pub retry: Option<&'a str>,
}

impl Templates {
    /// The templates of a folder, and of the folders in it, which are those of the connections with their names. The
    /// built-in template is used for each file that the folder does not have, and the folder's for each that a
    /// connection does not have. An error lists every mistake.
    pub fn load(folder: Option<&Path>) -> Result<Self, Vec<String>> {
        let mut mistakes = folder.map(strangers).unwrap_or_default();
        let payment_failed = PAYMENT_FAILED.load(folder, &mut mistakes);
        let mut of_connections = BTreeMap::new();
        for (name, folder) in folder.map(folders).unwrap_or_default() {
            let mut of_folder = strangers(&folder);
            if folder.join(PAYMENT_FAILED.file).exists()
                && let Some(template) = PAYMENT_FAILED.load(Some(&folder), &mut of_folder)
            {
                of_connections.insert(name.clone(), template);
            }
            mistakes.extend(of_folder.iter().map(|mistake| format!("{name}: {mistake}")));
        }
        match payment_failed {
            Some(payment_failed) if mistakes.is_empty() => Ok(Templates {
                payment_failed,
                of_connections,
            }),
            _ => Err(mistakes),
        }
    }

    /// `connection` is the one of the order's shop.
    pub fn payment_failed(&self, connection: &str, failed_payment: &PaymentFailed<'_>) -> Mail {
        let amount = format!(
            "{} {}",
            failed_payment.amount, failed_payment.amount.currency
        );
        let template = self.of_connections.get(connection);
        template.unwrap_or(&self.payment_failed).render(&[
            ("amount", &amount),
            ("order", failed_payment.order.unwrap_or_default()),
            ("reason", reason(failed_payment.decline_code)),
            ("pay_url", failed_payment.pay_url.unwrap_or_default()),
            ("retry", failed_payment.retry.unwrap_or_default()),
        ])
    }
}

impl Kind {
    fn load(&self, folder: Option<&Path>, mistakes: &mut Vec<String>) -> Option<Template> {
        let own = folder.map(|folder| std::fs::read_to_string(folder.join(self.file)));
        let text = match own {
            None => self.built_in.to_owned(),
            Some(Ok(text)) => text,
            Some(Err(error)) if error.kind() == ErrorKind::NotFound => self.built_in.to_owned(),
            Some(Err(error)) => {
                mistakes.push(format!("cannot read {}: {error}", self.file));
                return None;
            }
        };
        let template = Template::parse(&text, self.placeholders);
        template
            .map_err(|errors| {
                let failed_payment = errors.iter().map(|error| format!("{}, {error}", self.file));
                mistakes.extend(failed_payment);
            })
            .ok()
    }
}

/// The folders in a folder that have the name of a connection.
fn folders(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let named = |entry: DirEntry| Some((entry.file_name().into_string().ok()?, entry.path()));
    let is_one = |name: &str| name == DEFAULT || check_name(name).is_ok();
    let mut folders: Vec<_> = folders.filter_map(named).collect();
    folders.retain(|(name, _)| is_one(name));
    folders.sort();
    folders
}

/// Mistakes for the text files in the folder that have the name of no template.
fn strangers(folder: &Path) -> Vec<String> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return vec![format!("cannot read {}: {error}", folder.display())],
    };
    let known = KINDS.map(|kind| kind.file);
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| {
            let extension = Path::new(name).extension();
            extension.is_some_and(|it| it == "txt") && !known.contains(&name.as_str())
        })
        .collect();
    names.sort();
    names
        .iter()
        .map(|name| format!("{name:?} is no template; there are {}", known.join(", ")))
        .collect()
}

/// A sentence that tells the buyer why the payment failed. It does not say that a card was
/// reported lost or stolen, or that a payment looked like fraud, because the buyer should
/// not learn that (the provider's reference, Decline codes).
pub fn reason(decline_code: Option<&str>) -> &'static str {
    match decline_code.unwrap_or_default() {
        "insufficient_funds" => "There were not enough funds in your account.",
        "expired_card" => "Your card has expired.",
        "incorrect_cvc" | "invalid_cvc" => "The security code of your card was not right.",
        "incorrect_number" | "invalid_number" => "The number of your card was not right.",
        "invalid_expiry_month" | "invalid_expiry_year" => {
            "The expiry date of your card was not right."
        }
        "authentication_required" => "Your bank wants you to confirm this payment yourself.",
        "card_velocity_exceeded" | "withdrawal_count_limit_exceeded" => {
            "Your card has reached its limit."
        }
        "card_not_supported" => "Your card cannot be used for this kind of payment.",
        "currency_not_supported" => "Your card cannot be used in this currency.",
        "issuer_not_available" | "processing_error" | "reenter_transaction" | "try_again_later" => {
            "Your bank could not be asked just then."
        }
        _ => "Your bank declined the payment.",
    }
}
