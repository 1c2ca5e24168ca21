//! What is read from where the cursor is, where it then is, and what is said otherwise.

use super::*;

/// What `read` makes of the text, and the rest of it.
fn of<'a, T>(
    text: &'a str,
    read: impl Fn(&mut Cursor<'a>) -> Result<T>,
) -> std::result::Result<(T, &'a str), String> {
    let mut cursor = Cursor::new(text);
    match read(&mut cursor) {
        Ok(found) => Ok((found, &text[cursor.at..])),
        Err(error) => {
            let place = error.span.map_or("", |span| &text[span.start as usize..span.end as usize]);
            Err(format!("{} @ {place}", error.message))
        }
    }
}

#[test]
fn space_and_comments_are_skipped_and_open_comments_are_not() {
    let rest = |text: &str| {
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        text[cursor.at..].to_owned()
    };
    assert_eq!(rest(" \t\r\n// a\n/* b */ x"), "x");
    assert_eq!(
        [rest("/**/y"), rest("/x"), rest("/* open"), rest("/*/"), rest("// all")],
        ["y", "/x", "/* open", "/*/", ""]
    );
}

#[test]
fn a_byte_or_a_word_is_eaten_where_it_is_next() {
    let mut cursor = Cursor::new(" { roots root");
    assert!(!cursor.eat(b'}') && cursor.eat(b'{') && !cursor.eat_word("root"));
    assert!(cursor.eat_word("roots") && cursor.eat_word("root") && cursor.at_end());
    assert!(!cursor.eat(0));
    assert_eq!(of("a", |cursor| cursor.expect(b'{')), Err("expected `{`, found `a` @ a".to_owned()));
    assert_eq!(
        (Cursor::new("ab").peek(), Cursor::new("ab").peek_at(1), Cursor::new("ab").peek_at(2)),
        (b'a', b'b', 0)
    );
}

#[test]
fn names_begin_with_a_letter() {
    let name = |text| of(text, |cursor| cursor.name("a name"));
    assert_eq!(
        [name(" %x.1-a y"), name("_b,"), name("c")],
        [Ok(("x.1-a", " y")), Ok(("_b", ",")), Ok(("c", ""))]
    );
    assert_eq!(name("1x"), Err("expected a name, found `1x` @ 1x".to_owned()));
    assert_eq!(name(" %1"), Err("expected a name, found `%` @ %".to_owned()));
    assert_eq!(name(""), Err("expected a name, found the end of the file @ ".to_owned()));
}

#[test]
fn integers_have_64_bits() {
    let int = |text| of(text, Cursor::int);
    assert_eq!(
        [int(" 12,"), int("-7"), int("-9223372036854775808")],
        [Ok((12, ",")), Ok((-7, "")), Ok((i64::MIN, ""))]
    );
    assert_eq!(
        [int("x"), int("- 1")],
        ["x", "1"].map(|found| Err(format!("expected an integer, found `{found}` @ {found}")))
    );
    assert_eq!(
        int("9223372036854775808"),
        Err("`9223372036854775808` does not fit in 64 bits @ 9223372036854775808".to_owned())
    );
}

#[test]
fn strings_end_at_a_quote_that_is_not_escaped() {
    let string = |text| of(text, Cursor::string);
    assert_eq!(
        [string(" \"a b\" c"), string(r#""a\"b"c"#), string("\"\"")],
        [Ok(("a b", " c")), Ok((r#"a\"b"#, "c")), Ok(("", ""))]
    );
    assert_eq!(string("x"), Err("expected a string, found `x` @ x".to_owned()));
    assert_eq!(
        [string("\"abc"), string(r#""abc\""#)],
        ["the string is never closed @ \""; 2].map(|text| Err(text.to_owned()))
    );
}

#[test]
fn values_end_outside_of_all_brackets() {
    let value = |text| of(text, Cursor::balanced);
    for (text, rest) in [
        ("{a,(b [c d])}", ", e"),
        ("a", ",b"),
        ("a", " b"),
        ("a", "\nb"),
        ("a", "\tb"),
        ("a", "\rb"),
        ("\"x, y\"z", ")"),
        ("{\"}\"}", "}"),
        ("[1,2]<=[2]", ""),
    ] {
        let whole = format!("{text}{rest}");
        assert_eq!(of(&whole, Cursor::balanced), Ok((text, rest)));
    }
    assert_eq!(value("{a, (b)"), Err("this value's brackets are never closed @ {".to_owned()));
    assert_eq!(
        [value(")"), value(",")],
        [")", ","].map(|found| Err(format!("expected a value, found `{found}` @ {found}")))
    );
}

#[test]
fn long_words_are_clipped() {
    assert_eq!(clip(&"x".repeat(60)), "x".repeat(60));
    assert_eq!(clip(&"x".repeat(61)), format!("{}…", "x".repeat(60)));
}
