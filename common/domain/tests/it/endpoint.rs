//! Signatures and secrets of endpoints, and which addresses are public.

use domain::endpoint::{NotASecret, Secret, is_public, signatures};
use domain::time::Timestamp;

#[test]
fn a_signature_is_that_of_the_standards_own_example() {
    let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
    let at = Timestamp::from_unix_seconds(1_614_265_330);
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    let signature = signatures(
        std::slice::from_ref(&secret),
        id,
        at,
        br#"{"test": 2432232314}"#,
    );
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let other = Secret::new([7; 32]);
    let both = signatures(&[other, secret], id, at, br#"{"test": 2432232314}"#);
    assert!(both.starts_with("v1,") && both.ends_with(&format!(" {signature}")));
}

#[test]
fn a_secret_is_read_as_it_is_shown() {
    let secret = Secret::new([7; 32]);
    assert_eq!(secret.reveal().parse(), Ok(secret.clone()));
    assert_eq!(format!("{secret:?}"), "Secret(..)");
    for text in [
        "",
        "whsec_",
        "whsec_c2hvcnQ=",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ] {
        assert_eq!(text.parse::<Secret>(), Err(NotASecret), "{text}");
    }
}

#[test]
fn only_addresses_of_the_public_internet_are_public() {
    let public = |text: &str| is_public(text.parse().unwrap());
    for text in [
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
    ] {
        assert!(public(text), "{text}");
    }
    for text in [
        "0.0.0.0",
        "10.1.2.3",
        "127.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.1.1",
        "192.0.2.1",
        "198.18.0.1",
        "203.0.113.7",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "fe80::1",
        "fd00:ec2::254",
        "ff02::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001::1",
        "2001:db8::1",
        "::127.0.0.1",
    ] {
        assert!(!public(text), "{text}");
    }
}
