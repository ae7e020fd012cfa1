//! Codes by which the settings of processes are compared.

use config::{SETTINGS, Settings, Values};
use domain::privacy::Keys;

#[test]
fn a_code_differs_with_the_value_the_name_and_the_key() {
    let mut settings = Settings::defaults();
    let codes =
        |settings: &Settings, key: u8| Values::of(settings).codes(&Keys::new(vec![key; 32]));
    let before = codes(&settings, 1);
    assert_eq!(before.len(), SETTINGS.len() - 10);
    assert_ne!(before["QR_BORDER"], codes(&settings, 2)["QR_BORDER"]);
    assert_ne!(before["STOREFRONT_SHOPS"], before["TRUSTED_PROXIES"]);
    settings.set("QR_BORDER", "7");
    let after = codes(&settings, 1);
    let differ = before.iter().filter(|(name, code)| after[**name] != **code);
    let differ: Vec<_> = differ.map(|(name, _)| *name).collect();
    assert_eq!(differ, ["QR_BORDER"]);
    settings.stand_in("PAYMENT_API_KEY", "sk_test");
    assert_eq!(codes(&settings, 1), after, "the sandbox's are not given");
    assert!(!format!("{:?}", Values::of(&settings)).contains("sk_test"));
}
