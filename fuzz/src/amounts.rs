//! Amounts of payments in QR codes, which are read without a rounding that nobody sees. `common/qr/tests/it/corpus.rs`
//! includes this file.

use qr::{parse_amount, round_amount};

pub fn check(data: &[u8]) {
    if let Ok(given) = str::from_utf8(data) {
        amount(given);
    }
}

fn amount(given: &str) {
    let parsed = parse_amount(given);
    if let Ok(hundredths) = parsed {
        assert_eq!(round_amount(given), Ok(hundredths), "{given}");
        let sign = if hundredths < 0 { "-" } else { "" };
        let plain = hundredths.unsigned_abs();
        let written = format!("{sign}{}.{:02}", plain / 100, plain % 100);
        assert_eq!(parse_amount(&written), Ok(hundredths), "{given}");
    }
    if let Ok(number) = given.parse::<f64>()
        && let Ok(hundredths) = round_amount(given)
        && number.abs() < 1e9
    {
        #[expect(
            clippy::cast_precision_loss,
            reason = "it is less than a thousand millions"
        )]
        let apart = (number * 100.0 - hundredths as f64).abs();
        assert!(apart <= 0.501, "{given} {hundredths}");
    }
}
