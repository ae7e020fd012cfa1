//! The articles of a checkout session, read from the `line_items` of its form.

use domain::money::{Currency, Money};

use super::currencies;
use super::desk::{Desk, charged};
use super::error::Error;
use super::form::{Form, missing};
use super::sessions::Line;

const INTERVALS: [(&str, u32); 2] = [("month", 1), ("year", 12)];
const LONGEST_PERIOD: u32 = 36;

impl Desk<'_> {
    pub fn lines(&self, form: &mut Form) -> Result<Vec<Line>, Error> {
        let mut items = form.list("line_items")?;
        let lines = items.iter_mut().map(|item| self.line(item));
        let lines: Vec<Line> = lines.collect::<Result<_, _>>()?;
        if lines.is_empty() {
            return Err(missing("line_items"));
        }
        Ok(lines)
    }

    fn line(&self, item: &mut Form) -> Result<Line, Error> {
        let quantity = item.required_positive("quantity")?;
        let param = item.name("price");
        let line = match (item.text("price")?, item.group("price_data")?) {
            (Some(id), None) => {
                let price = self.ledger.prices.get(&id);
                let price = price.ok_or_else(|| {
                    let error = Error::invalid(format!("No such price: '{id}'"));
                    error.code("resource_missing").param(&param)
                })?;
                Line {
                    quantity,
                    ..price.clone()
                }
            }
            (None, Some(mut data)) => priced(&mut data, quantity)?,
            (None, None) => return Err(missing(&param)),
            (Some(_), Some(_)) => {
                let message = "You may only specify one of these parameters: price, price_data.";
                return Err(Error::invalid(message)
                    .code("parameters_exclusive")
                    .param(&param));
            }
        };
        item.refuse_rest()?;
        Ok(line)
    }
}

fn priced(data: &mut Form, quantity: i64) -> Result<Line, Error> {
    let price = Money {
        minor: data.required_positive("unit_amount")?,
        currency: currencies::read(data, "currency")?,
    };
    let param = data.name("product_data");
    let product = data.group("product_data")?;
    let mut product = product.ok_or_else(|| missing(&param))?;
    let name = product.required("name")?;
    product.pass_over(&["description", "images", "metadata"]);
    product.refuse_rest()?;
    let months = match data.group("recurring")? {
        None => None,
        Some(mut recurring) => Some(period(&mut recurring)?),
    };
    data.pass_over(&["tax_behavior"]);
    data.refuse_rest()?;
    Ok(Line {
        name,
        price,
        quantity,
        months,
    })
}

fn period(recurring: &mut Form) -> Result<u32, Error> {
    let param = recurring.name("interval");
    let months = recurring.choice("interval", &INTERVALS)?;
    let months = months.ok_or_else(|| missing(&param))?;
    let count = recurring.positive("interval_count")?.unwrap_or(1);
    recurring.refuse_rest()?;
    let count = u32::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(months));
    let longest = count.filter(|months| *months <= LONGEST_PERIOD);
    longest.ok_or_else(|| Error::invalid("A period may have up to three years.").param(&param))
}

/// The total of the lines, which must be in one currency.
pub fn total(lines: &[Line]) -> Result<Money, Error> {
    let currency = lines.first().map(|line| line.price.currency);
    let currency: Currency = currency.ok_or_else(|| missing("line_items"))?;
    if let Some(nth) = lines
        .iter()
        .position(|line| line.price.currency != currency)
    {
        let message = "All prices on a Checkout Session must be expressed in the same currency.";
        let param = format!("line_items[{nth}][price_data][currency]");
        return Err(Error::invalid(message).param(&param));
    }
    let sum = lines
        .iter()
        .try_fold(0_i64, |sum, line| sum.checked_add(line.total()?));
    Ok(Money {
        minor: charged(sum.unwrap_or(i64::MAX), "line_items")?,
        currency,
    })
}
