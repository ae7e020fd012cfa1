//! Mails: what a template may contain, and how its values are filled in.

use std::path::Path;

use domain::money::{Currency, Money};
use domain::notification::{Mail, PaymentFailed, Template, Templates, reason};
use proptest::prelude::*;

const KNOWN: &[&str] = &["a", "b"];

fn mail(template: &str, values: &[(&str, &str)]) -> Mail {
    Template::parse(template, KNOWN).unwrap().render(values)
}

fn mistakes(template: &str) -> Vec<String> {
    let errors = Template::parse(template, KNOWN).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

fn failed_payment<'a>() -> PaymentFailed<'a> {
    PaymentFailed {
        amount: Money {
            minor: 1250,
            currency: Currency::parse("USD").unwrap(),
        },
        order: None,
        decline_code: None,
        pay_url: None,
        retry: None,
    }
}

#[test]
fn placeholders_become_values_in_subject_and_text() {
    let text = "\u{feff}Subject: {{a}} of {{ b }}\r\n\r\nDear {{a}},\r\n{{b}}{{a}} }} {\r\n";
    let mail = mail(text, &[("a", "Ü"), ("b", "2")]);
    assert_eq!(mail.subject, "Ü of 2");
    assert_eq!(mail.body, "Dear Ü,\n2Ü }} {\n");
}

#[test]
fn a_value_is_never_read_as_a_placeholder() {
    let values = [("a", "{{b}}"), ("b", "{{a}}")];
    let mail = mail("Subject: {{a}}{{b}}\n\n{{b}}", &values);
    assert_eq!(mail.subject, "{{b}}{{a}}");
    assert_eq!(mail.body, "{{a}}\n");
}

#[test]
fn a_line_whose_values_are_all_empty_is_left_out_with_its_gap() {
    let template = "Subject: s\n\nDear,\n\nfor {{a}}\n\nat {{a}} or {{b}}\n\nbye\n{{b}}\n";
    let body = |values: &[(&str, &str)]| mail(template, values).body;
    assert_eq!(body(&[]), "Dear,\n\nbye\n");
    assert_eq!(body(&[("a", " \n")]), "Dear,\n\nbye\n");
    assert_eq!(body(&[("b", "2")]), "Dear,\n\nat  or 2\n\nbye\n2\n");
    let both = "Dear,\n\nfor 1\n\nat 1 or 2\n\nbye\n2\n";
    assert_eq!(body(&[("a", "1"), ("b", "2")]), both);
    let first = mail("Subject: s\n\n{{a}}\n\nbye", &[]);
    assert_eq!(first.body, "bye\n");
    let gap = mail("Subject: s\n\none\n\n\ntwo", &[]);
    assert_eq!(gap.body, "one\n\n\ntwo\n", "a gap that is meant stays");
}

#[test]
fn no_line_of_a_mail_has_a_line_break_within_it() {
    for template in ["Subject: s\rBcc: x\n\nbody", "Subject: s\n\nbo\rdy"] {
        let mistakes = mistakes(template);
        assert!(mistakes[0].ends_with("has a carriage return that ends no line"));
    }
    assert_eq!(mail("Subject: s\r\n\r\nbody\r", &[]).body, "body\n");
}

#[test]
fn every_mistake_of_a_template_is_given_with_its_line() {
    let known = "is not known; there are {{a}}, {{b}}";
    assert_eq!(
        mistakes("Subject: {{c}}\n\nfine {{a}}\n{{A}} {{b\nopen {{a\n"),
        [
            format!("line 1: {{{{c}}}} {known}"),
            format!("line 4: {{{{A}}}} {known}"),
            "line 5: has `{{` without `}}`".to_owned(),
        ]
    );
    for none in [
        "",
        "Hello\n\ntext",
        "Subject:  \n\ntext",
        "\nSubject: a\n\ntext",
    ] {
        let first = &mistakes(none)[0];
        assert_eq!(first, "line 1: must be `Subject:` and a text", "{none:?}");
    }
    let second = "line 2: must be empty: it ends the subject";
    assert_eq!(mistakes("Subject: a\ntext"), [second]);
    for none in ["Subject: a", "Subject: a\n", "Subject: a\n\n \n"] {
        assert_eq!(mistakes(none), ["line 3: must begin the text of the mail"]);
    }
}

#[test]
fn the_built_in_mail_says_what_is_known() {
    let templates = Templates::load(None).unwrap();
    let bare = templates.payment_failed("default", &failed_payment());
    assert_eq!(bare.subject, "Your payment of 12.50 USD did not go through");
    assert_eq!(
        bare.body,
        "Hello,\n\n\
         we could not collect your payment of 12.50 USD.\n\n\
         Your bank declined the payment.\n\n\
         If you have paid in the meantime, there is nothing left to do.\n"
    );
    let full = templates.payment_failed(
        "default",
        &PaymentFailed {
            order: Some("#1001"),
            decline_code: Some("expired_card"),
            pay_url: Some("https://shop.example/pay/1001"),
            retry: Some("We will try again tomorrow."),
            ..failed_payment()
        },
    );
    assert_eq!(
        full.body,
        "Hello,\n\n\
         we could not collect your payment of 12.50 USD.\n\
         It is for order #1001.\n\n\
         Your card has expired.\n\n\
         We will try again tomorrow.\n\n\
         To pay now, open https://shop.example/pay/1001\n\n\
         If you have paid in the meantime, there is nothing left to do.\n"
    );
}

#[test]
fn a_buyer_is_not_reported_what_is_the_banks_alone_to_know() {
    let declined = "Your bank declined the payment.";
    for code in [
        "lost_card",
        "stolen_card",
        "fraudulent",
        "pickup_card",
        "generic_decline",
        "",
    ] {
        assert_eq!(reason(Some(code)), declined, "{code}");
    }
    assert_eq!(reason(None), declined);
    assert_eq!(
        reason(Some("insufficient_funds")),
        "There were not enough funds in your account."
    );
}

#[test]
fn a_folder_has_templates_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let load = || Templates::load(Some(folder.path()));
    let built_in = load().unwrap().payment_failed("default", &failed_payment());
    assert!(
        built_in.body.starts_with("Hello,"),
        "what is not there is built in"
    );
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("README.md", "ours");
    write("payment_failed.txt", "Subject: Ach\n\n{{amount}} fehlen.\n");
    let own = load().unwrap().payment_failed("default", &failed_payment());
    assert_eq!(
        (own.subject.as_str(), own.body.as_str()),
        ("Ach", "12.50 USD fehlen.\n")
    );
    write("payment_failed.txt", "Subject: {{name}}\n\n{{amout}}\n");
    write("payment_fialed.txt", "");
    let there_are =
        "is not known; there are {{amount}}, {{order}}, {{reason}}, {{pay_url}}, {{retry}}";
    assert_eq!(
        load().unwrap_err(),
        [
            "\"payment_fialed.txt\" is no template; there are payment_failed.txt".to_owned(),
            format!("payment_failed.txt, line 1: {{{{name}}}} {there_are}"),
            format!("payment_failed.txt, line 3: {{{{amout}}}} {there_are}"),
        ]
    );
    let missing = Templates::load(Some(Path::new("/nowhere"))).unwrap_err();
    assert!(
        missing[0].starts_with("cannot read /nowhere"),
        "{missing:?}"
    );
    assert_eq!(missing.len(), 1);
}

proptest! {
    #[test]
    fn no_value_makes_another_line(a in ".*", b in "[\\PC\r\n\t\u{85}\u{2028}\u{2029}\0]*") {
        let mail = mail("Subject: x{{a}}{{b}}\n\nx{{a}}\nx{{b}}", &[("a", &a), ("b", &b)]);
        let is_break = |c: char| c.is_control() || "\u{2028}\u{2029}".contains(c);
        prop_assert!(!mail.subject.contains(is_break));
        prop_assert!(mail.body.lines().count() <= 2);
        prop_assert!(!mail.body.replace('\n', "").contains(is_break));
    }

    #[test]
    fn any_text_is_a_template_or_says_why_not(text in "(Subject: .*\n\n)?(\\{\\{|\\}\\}|a|b|\n|.){0,40}") {
        match Template::parse(&text, KNOWN) {
            Ok(template) => {
                template.render(&[("a", "1")]);
            }
            Err(errors) => prop_assert!(!errors.is_empty()),
        }
    }
}
