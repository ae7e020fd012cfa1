//! Amounts are read exactly or refused.

use domain::money::{AmountError, Currency, Money, decimal, is_decimal};
use proptest::prelude::*;

fn currency(code: &str) -> Currency {
    Currency::parse(code).expect("a currency")
}

fn minor(text: &str, code: &str) -> Result<i64, AmountError> {
    Money::parse_decimal(text, currency(code)).map(|money| money.minor)
}

#[test]
fn a_currency_is_three_letters_of_either_case() {
    assert_eq!(currency("usd"), currency("USD"));
    assert_eq!(currency("eUr").as_str(), "EUR");
    assert_eq!(currency("gbp").to_string(), "GBP");
    for wrong in ["", "US", "USDT", "U5D", "US ", "ÄU", "€", "\0\0\0"] {
        assert_eq!(Currency::parse(wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_currency_has_its_own_number_of_decimals() {
    for code in ["USD", "EUR", "GBP", "MXN", "HUF", "ZZZ"] {
        assert_eq!(currency(code).exponent(), 2, "{code}");
    }
    for code in ["JPY", "KRW", "CLP", "VND", "ISK", "XOF", "PYG"] {
        assert_eq!(currency(code).exponent(), 0, "{code}");
    }
    for code in ["BHD", "KWD", "OMR", "TND", "JOD", "IQD", "LYD"] {
        assert_eq!(currency(code).exponent(), 3, "{code}");
    }
    assert_eq!(currency("CLF").exponent(), 4);
}

/// From the payment provider's documentation, Supported currencies: the zero-decimal currencies,
/// the three-decimal currencies, and the special cases.
#[test]
fn the_providers_minor_units_are_its_own() {
    let of_provider = |minor, code| Money::of_provider(minor, currency(code)).map(|it| it.minor);
    for code in [
        "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "PYG", "RWF", "VND", "VUV", "XAF", "XOF",
        "XPF", "USD", "EUR", "HUF", "TWD", "BHD", "JOD", "KWD", "OMR", "TND",
    ] {
        assert_eq!(of_provider(510, code), Ok(510), "{code}");
    }
    for code in ["ISK", "UGX"] {
        assert_eq!(of_provider(500, code), Ok(5), "{code}: 500 are 5");
        assert_eq!(
            of_provider(550, code),
            Err(AmountError::TooPrecise),
            "{code}"
        );
    }
    assert_eq!(of_provider(5, "MGA"), Ok(500), "5 are 5.00");
    assert_eq!(of_provider(i64::MAX, "MGA"), Err(AmountError::OutOfRange));
}

#[test]
fn an_amount_is_read_into_minor_units() {
    assert_eq!(minor("403.00", "USD"), Ok(40_300));
    assert_eq!(minor("403", "USD"), Ok(40_300));
    assert_eq!(minor("403.5", "USD"), Ok(40_350));
    assert_eq!(minor("0.05", "USD"), Ok(5));
    assert_eq!(minor("-0.05", "USD"), Ok(-5));
    assert_eq!(minor("-0.00", "USD"), Ok(0));
    assert_eq!(minor("007.10", "USD"), Ok(710));
    assert_eq!(minor("1000", "JPY"), Ok(1000));
    assert_eq!(minor("1.234", "KWD"), Ok(1234));
}

#[test]
fn zeros_beyond_the_currencys_decimals_are_fine() {
    assert_eq!(minor("1000.00", "JPY"), Ok(1000));
    assert_eq!(minor("1.5000000", "USD"), Ok(150));
    let long = format!("1.{}", "0".repeat(10_000));
    assert_eq!(minor(&long, "USD"), Ok(100));
}

#[test]
fn an_amount_that_would_need_rounding_is_refused() {
    assert_eq!(minor("1000.50", "JPY"), Err(AmountError::TooPrecise));
    assert_eq!(minor("0.001", "USD"), Err(AmountError::TooPrecise));
    assert_eq!(minor("1.000000001", "USD"), Err(AmountError::TooPrecise));
    assert_eq!(minor("1.2345", "KWD"), Err(AmountError::TooPrecise));
}

#[test]
fn an_amount_beyond_64_bits_is_refused() {
    assert_eq!(minor("92233720368547758.07", "USD"), Ok(i64::MAX));
    assert_eq!(minor("-92233720368547758.08", "USD"), Ok(i64::MIN));
    for beyond in [
        "92233720368547758.08",
        "-92233720368547758.09",
        "100000000000000000",
        "99999999999999999999999999",
    ] {
        assert_eq!(
            minor(beyond, "USD"),
            Err(AmountError::OutOfRange),
            "{beyond}"
        );
    }
}

#[test]
fn anything_but_a_plain_decimal_is_refused() {
    for garbage in [
        "", "-", ".", "5.", ".5", "--5", "+5", "5-", "1e3", "1E3", "1,000.00", "1.000,00", "1 000",
        " 5", "5 ", "5\n", "$5", "0x10", "NaN", "Infinity", "1.2.3", "1.-2", "٣", "５",
    ] {
        assert_eq!(
            minor(garbage, "USD"),
            Err(AmountError::NotADecimal),
            "{garbage:?}"
        );
        assert!(!is_decimal(garbage), "{garbage:?}");
    }
}

#[test]
fn money_is_shown_with_the_decimals_of_its_currency() {
    let shown = |minor, code| {
        let currency = currency(code);
        Money { minor, currency }.to_string()
    };
    assert_eq!(shown(40_300, "USD"), "403.00");
    assert_eq!(shown(5, "USD"), "0.05");
    assert_eq!(shown(-5, "USD"), "-0.05");
    assert_eq!(shown(0, "USD"), "0.00");
    assert_eq!(shown(1000, "JPY"), "1000");
    assert_eq!(shown(-1, "JPY"), "-1");
    assert_eq!(shown(1234, "KWD"), "1.234");
    assert_eq!(shown(i64::MIN, "USD"), "-92233720368547758.08");
}

fn currencies() -> impl Strategy<Value = Currency> {
    prop_oneof!["JPY|USD|KWD|CLF", "[A-Za-z]{3}"].prop_map(|code| currency(&code))
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(minor: i64, currency in currencies()) {
        let money = Money { minor, currency };
        prop_assert_eq!(Money::parse_decimal(&money.to_string(), currency), Ok(money));
    }

    #[test]
    fn zeros_at_either_end_change_nothing(
        minor: i64,
        currency in currencies(),
        before in "0{0,9}",
        after in "0{0,9}",
    ) {
        let money = Money { minor, currency };
        let shown = money.to_string();
        let (sign, digits) = match shown.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", shown.as_str()),
        };
        let point = if digits.contains('.') || after.is_empty() { "" } else { "." };
        let padded = format!("{sign}{before}{digits}{point}{after}");
        prop_assert_eq!(Money::parse_decimal(&padded, currency), Ok(money));
    }

    #[test]
    fn a_digit_too_many_is_never_rounded_away(minor: i64, currency in currencies(), digit in 1..=9) {
        let shown = Money { minor, currency }.to_string();
        let point = if shown.contains('.') { "" } else { "." };
        let finer = format!("{shown}{point}{digit}");
        prop_assert_eq!(
            Money::parse_decimal(&finer, currency),
            Err(AmountError::TooPrecise)
        );
    }

    #[test]
    fn no_text_panics(text in ".*", currency in currencies()) {
        let read = Money::parse_decimal(&text, currency);
        prop_assert!(is_decimal(&text) || read == Err(AmountError::NotADecimal));
    }
}

#[test]
fn an_amount_is_written_in_units_where_its_currency_is_known() {
    assert_eq!(decimal(40_300, "usd"), "403.00");
    assert_eq!(decimal(-5, "KWD"), "-0.005");
    assert_eq!(decimal(40_300, "dollars"), "40300");
    assert_eq!(format!("{:?}", currency("usd")), "USD");
}
