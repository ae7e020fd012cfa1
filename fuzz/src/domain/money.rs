//! Amounts of money: what is read can be written and read again, to the last digit.

use domain::money::{Currency, Money, decimal, is_decimal};

use super::input::{Input, text};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let letters = [input.byte(), input.byte(), input.byte()];
    let code = text(&letters);
    let Some(currency) = Currency::parse(code) else {
        assert!(code.len() != 3 || !code.bytes().all(|it| it.is_ascii_alphabetic()));
        return;
    };
    assert_eq!(Currency::parse(currency.as_str()), Some(currency));
    assert!(currency.as_str().eq_ignore_ascii_case(code));
    if input.byte().is_multiple_of(4) {
        minor(input.number(), currency);
    } else {
        read(text(input.rest()), currency);
    }
}

fn minor(minor: i64, currency: Currency) {
    let money = Money { minor, currency };
    let written = money.to_string();
    assert!(is_decimal(&written));
    assert_eq!(written, decimal(minor, currency.as_str()));
    assert_eq!(Money::parse_decimal(&written, currency), Ok(money));
    if let Ok(ours) = Money::of_provider(minor, currency) {
        assert_eq!(ours.minor.signum(), minor.signum());
        let (ours, theirs) = (i128::from(ours.minor), i128::from(minor));
        let parts = |exponent: u32| 10_i128.pow(exponent);
        assert_eq!(
            ours * parts(currency.provider_exponent()),
            theirs * parts(currency.exponent())
        );
    }
}

fn read(given: &str, currency: Currency) {
    let Ok(money) = Money::parse_decimal(given, currency) else {
        return;
    };
    assert!(is_decimal(given));
    let written = money.to_string();
    assert_eq!(Money::parse_decimal(&written, currency), Ok(money));
    // It is the same number, whatever zeros it is written with.
    let plain = |text: &str| {
        let (sign, number) = text
            .strip_prefix('-')
            .map_or(("", text), |rest| ("-", rest));
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let whole = whole.trim_start_matches('0').to_owned();
        let decimals = decimals.trim_end_matches('0').to_owned();
        let is_zero = whole.is_empty() && decimals.is_empty();
        (if is_zero { "" } else { sign }.to_owned(), whole, decimals)
    };
    assert_eq!(plain(&written), plain(given));
}
