//! The file .env.

use config::env_file::parse;

fn value(line: &str) -> Option<String> {
    parse(line).unwrap().remove("A")
}

#[test]
fn values_are_read_as_compose_reads_them() {
    for (line, expected) in [
        ("A=b", "b"),
        ("  export A = b c  ", "b c"),
        ("A=b # a comment", "b"),
        ("A=b#c", "b#c"),
        ("A='b $c \\n # d'", "b $c \\n # d"),
        (r#"A="b \"c\" \$d\n\e" # f"#, "b \"c\" $d\n\\e"),
        ("A=x=y", "x=y"),
        ("A=1\nA=2", "2"),
    ] {
        assert_eq!(value(line).as_deref(), Some(expected), "{line}");
    }
    for line in ["A=", "A= ", "A=''", "# A=b", "", "B=c"] {
        assert_eq!(value(line), None, "{line}");
    }
}

#[test]
fn a_line_that_cannot_be_read_is_named_by_its_number_and_not_by_its_content() {
    for text in [
        "A=b\nsecret",
        "A=b\nC='secret",
        "A=b\nC=\"secret",
        "A=b\nC='secret' x",
    ] {
        let wrong = parse(text).unwrap_err();
        assert!(wrong.starts_with(".env, line 2: "), "{wrong}");
        assert!(!wrong.contains("secret"), "{wrong}");
    }
}
