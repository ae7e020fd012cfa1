//! All SQL statements of the crate `store`, read from its sources: a new one is found without a
//! test that runs it. Literals, `concat!`, constants and the crate's own macros are understood.

use std::collections::BTreeMap;
use std::path::Path;

pub struct Statement {
    /// `jobs/ended.rs:153`, in the sources of `store`.
    pub place: String,
    pub sql: String,
}

#[derive(Clone, PartialEq)]
enum Token {
    Text(String, usize),
    Word(String),
    Sign(char),
    Group(char, Vec<Token>),
}

/// The arms of a macro: what each takes and what it becomes.
type Macros = BTreeMap<String, Vec<(Vec<Token>, Vec<Token>)>>;

const VERBS: [&str; 5] = ["select ", "insert ", "update ", "delete ", "with "];

/// Files whose statements set a session up or speak to one database alone, and migrations, which
/// run once.
const LEFT_OUT: [&str; 4] = ["sql.rs", "sql", "migrations", "migrations.rs"];

pub fn all() -> Vec<Statement> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/store/src");
    let mut files = Vec::new();
    collect(&root, "", &mut files);
    files.sort();
    let files: Vec<(String, Vec<Token>)> = files
        .into_iter()
        .map(|(name, text)| {
            // What follows are the crate's own tests.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let mut reader = Reader {
                letters: code.chars().collect(),
                at: 0,
                line: 1,
            };
            (name, reader.group(None))
        })
        .collect();
    let mut macros = Macros::new();
    for (_, tokens) in &files {
        find_macros(tokens, &mut macros);
    }
    let mut found = Vec::new();
    for (name, tokens) in &files {
        let mut texts = Vec::new();
        walk(tokens, &macros, &mut texts);
        found.extend(texts.into_iter().map(|(sql, line)| Statement {
            place: format!("{name}:{line}"),
            sql,
        }));
    }
    found
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if prefix.is_empty() && LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{prefix}{name}/"), files);
        } else {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            files.push((format!("{prefix}{name}"), text));
        }
    }
}

/// Splits source text into tokens, without comments.
struct Reader {
    letters: Vec<char>,
    at: usize,
    line: usize,
}

impl Reader {
    fn next(&mut self) -> Option<char> {
        let letter = *self.letters.get(self.at)?;
        self.at += 1;
        self.line += usize::from(letter == '\n');
        Some(letter)
    }

    fn peek(&self, ahead: usize) -> char {
        self.letters.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// Up to the bracket that closes the group, or the end.
    fn group(&mut self, closed_by: Option<char>) -> Vec<Token> {
        let mut tokens = Vec::new();
        while let Some(letter) = self.next() {
            match letter {
                '/' if self.peek(0) == '/' => while self.next().is_some_and(|it| it != '\n') {},
                '"' => tokens.push(self.text()),
                'r' if self.peek(0) == '"' || (self.peek(0) == '#' && self.peek(1) == '"') => {
                    tokens.push(self.raw_text());
                }
                '\'' => self.letter_or_lifetime(),
                '(' => tokens.push(Token::Group('(', self.group(Some(')')))),
                '[' => tokens.push(Token::Group('[', self.group(Some(']')))),
                '{' => tokens.push(Token::Group('{', self.group(Some('}')))),
                letter if Some(letter) == closed_by => return tokens,
                letter if letter.is_whitespace() => {}
                letter if letter.is_alphanumeric() || letter == '_' => {
                    let mut word = String::from(letter);
                    while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
                        word.extend(self.next());
                    }
                    tokens.push(Token::Word(word));
                }
                sign => tokens.push(Token::Sign(sign)),
            }
        }
        assert!(closed_by.is_none(), "a bracket is not closed");
        tokens
    }

    fn text(&mut self) -> Token {
        let (mut text, line) = (String::new(), self.line);
        while let Some(letter) = self.next() {
            match letter {
                '"' => return Token::Text(text, line),
                '\\' => match self.next() {
                    // The line goes on after the blanks of the next one.
                    Some('\n') => {
                        while self.peek(0).is_whitespace() {
                            self.next();
                        }
                    }
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(letter) => text.push(letter),
                    None => {}
                },
                letter => text.push(letter),
            }
        }
        panic!("a text is not closed");
    }

    fn raw_text(&mut self) -> Token {
        let (mut text, line, mut marks) = (String::new(), self.line, 0);
        while self.next() == Some('#') {
            marks += 1;
        }
        let end: Vec<char> = std::iter::once('"')
            .chain(std::iter::repeat_n('#', marks))
            .collect();
        while !self.letters[self.at..].starts_with(&end) {
            text.extend(self.next());
        }
        self.at += end.len();
        Token::Text(text, line)
    }

    fn letter_or_lifetime(&mut self) {
        if self.peek(0) == '\\' {
            self.at += 2;
            while self.next().is_some_and(|letter| letter != '\'') {}
        } else if self.peek(1) == '\'' {
            self.at += 2;
        }
    }
}

fn find_macros(tokens: &[Token], macros: &mut Macros) {
    for (nth, token) in tokens.iter().enumerate() {
        match (token, &tokens[nth + 1..]) {
            (
                Token::Word(word),
                [
                    Token::Sign('!'),
                    Token::Word(name),
                    Token::Group(_, arms),
                    ..,
                ],
            ) if word == "macro_rules" => {
                let groups = arms.iter().filter_map(|arm| match arm {
                    Token::Group(_, tokens) => Some(tokens.clone()),
                    _ => None,
                });
                let groups: Vec<_> = groups.collect();
                let arms = groups
                    .chunks_exact(2)
                    .map(|arm| (arm[0].clone(), arm[1].clone()));
                macros.insert(name.clone(), arms.collect());
            }
            (Token::Group(_, inner), _) => find_macros(inner, macros),
            _ => {}
        }
    }
}

/// Adds each statement of these tokens, with its line.
fn walk(tokens: &[Token], macros: &Macros, found: &mut Vec<(String, usize)>) {
    let mut rest = tokens;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (Token::Word(word), [Token::Sign('!'), Token::Word(_), Token::Group(..), ..])
                if word == "macro_rules" =>
            {
                rest = &after[3..];
            }
            (Token::Word(name), [Token::Sign('!'), Token::Group(_, arguments), ..])
                if name == "concat" || macros.contains_key(name) =>
            {
                rest = &after[2..];
                let line = line_of(arguments);
                if let Some(sql) =
                    text_of(&[first.clone(), after[0].clone(), after[1].clone()], macros)
                {
                    add(sql, line, found);
                } else if name == "table" {
                    exported(arguments, line, found);
                } else if let Some(expanded) = expand(name, arguments, macros) {
                    let before = found.len();
                    walk(&expanded, macros, found);
                    for (_, place) in &mut found[before..] {
                        *place = line;
                    }
                }
            }
            (Token::Text(text, line), _) => add(text.clone(), *line, found),
            (Token::Group(_, inner), _) => walk(inner, macros, found),
            _ => {}
        }
    }
}

fn add(sql: String, line: usize, found: &mut Vec<(String, usize)>) {
    if VERBS.iter().any(|verb| sql.starts_with(verb)) {
        found.push((sql, line));
    }
}

fn line_of(tokens: &[Token]) -> usize {
    tokens
        .iter()
        .find_map(|token| match token {
            Token::Text(_, line) => Some(*line),
            Token::Group(_, inner) => Some(line_of(inner)).filter(|line| *line > 0),
            _ => None,
        })
        .unwrap_or_default()
}

/// The text that an expression is, if it is one.
fn text_of(tokens: &[Token], macros: &Macros) -> Option<String> {
    match tokens {
        [Token::Text(text, _)] => Some(text.clone()),
        [Token::Word(number)] if number.parse::<i64>().is_ok() => Some(number.clone()),
        [
            Token::Word(name),
            Token::Sign('!'),
            Token::Group(_, arguments),
        ] if name == "concat" => {
            let parts = arguments.split(|token| *token == Token::Sign(','));
            let parts = parts.filter(|part| !part.is_empty());
            parts.map(|part| text_of(part, macros)).collect()
        }
        [
            Token::Word(name),
            Token::Sign('!'),
            Token::Group(_, arguments),
        ] => text_of(&expand(name, arguments, macros)?, macros),
        _ => None,
    }
}

/// What a call of a macro becomes. Repetitions are not understood.
fn expand(name: &str, arguments: &[Token], macros: &Macros) -> Option<Vec<Token>> {
    macros.get(name)?.iter().find_map(|(pattern, body)| {
        let bound = bind(pattern, arguments)?;
        Some(replace(body, &bound))
    })
}

fn bind(pattern: &[Token], arguments: &[Token]) -> Option<BTreeMap<String, Vec<Token>>> {
    let (mut pattern, mut arguments, mut bound) = (pattern, arguments, BTreeMap::new());
    loop {
        match (pattern, arguments) {
            ([], []) => return Some(bound),
            (
                [
                    Token::Sign('$'),
                    Token::Word(name),
                    Token::Sign(':'),
                    Token::Word(kind),
                    after @ ..,
                ],
                _,
            ) => {
                let end = arguments.iter().position(|it| *it == Token::Sign(','));
                let (given, left) = arguments.split_at(end.unwrap_or(arguments.len()));
                let is_literal = matches!(given, [Token::Text(..)]);
                let is_word = matches!(given, [Token::Word(_)]);
                if given.is_empty()
                    || (kind == "literal" && !is_literal)
                    || (kind == "ident" && !is_word)
                {
                    return None;
                }
                bound.insert(name.clone(), given.to_vec());
                (pattern, arguments) = (after, left);
            }
            ([wanted, after @ ..], [given, left @ ..]) if wanted == given => {
                (pattern, arguments) = (after, left);
            }
            _ => return None,
        }
    }
}

fn replace(body: &[Token], bound: &BTreeMap<String, Vec<Token>>) -> Vec<Token> {
    let mut replaced = Vec::new();
    let mut rest = body;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (Token::Sign('$'), [Token::Word(name), ..]) if bound.contains_key(name) => {
                replaced.extend(bound[name].iter().cloned());
                rest = &after[1..];
            }
            (Token::Group(bracket, inner), _) => {
                replaced.push(Token::Group(*bracket, replace(inner, bound)));
            }
            (token, _) => replaced.push(token.clone()),
        }
    }
    replaced
}

/// The statements of a `table!` of what is exported: one for each condition.
fn exported(arguments: &[Token], line: usize, found: &mut Vec<(String, usize)>) {
    let Some(Token::Text(table, _)) = arguments.first() else {
        return;
    };
    for pair in arguments.windows(2) {
        if let [Token::Word(_), Token::Text(condition, _)] = pair {
            let sql = format!("select 1 from {table} where {condition}");
            add(sql, line, found);
        }
    }
}
