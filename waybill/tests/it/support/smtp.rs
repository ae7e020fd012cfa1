//! A mail server that stores the mails it gets, and that refuses, hangs or hangs up if a test
//! tells it to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What it does instead of saying yes.
#[derive(Clone, Copy, Debug)]
pub enum Reply {
    /// Answers this code, and a text that quotes what it was told.
    Code(u16),
    /// Says nothing, and leaves the connection open.
    Hang,
    /// Closes the connection.
    Drop,
}

/// Where it may still fail to answer that it has taken a mail.
pub const TAKEN: &str = "TAKEN";

/// A mail that it took.
#[derive(Clone, Debug)]
pub struct Received {
    pub from: String,
    pub to: String,
    head: String,
    text: String,
}

#[derive(Default)]
struct State {
    /// By command; the greeting is `""`, the end of the text is `.`, and [`TAKEN`] after the mail is stored.
    replies: HashMap<String, Reply>,
    /// Offered in the answer to EHLO.
    extensions: Vec<String>,
    offers_no_login: bool,
    received: Vec<Received>,
    said: Vec<String>,
}

pub struct SmtpServer {
    pub address: std::net::SocketAddr,
    state: Arc<Mutex<State>>,
}

impl SmtpServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = SmtpServer {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        let state = server.state.clone();
        platform::task::spawn("mail server", async move {
            while let Ok((client, _)) = listener.accept().await {
                let state = state.clone();
                platform::task::spawn("mail connection", async move {
                    let _ = serve(client, &state).await;
                });
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("smtp://{}", self.address)
    }

    /// From now on it does this when it is told `command`.
    pub fn at(&self, command: &str, reply: Reply) {
        let mut state = self.state.lock().unwrap();
        state.replies.insert(command.to_owned(), reply);
    }

    pub fn offer(&self, extension: &str) {
        let mut state = self.state.lock().unwrap();
        state.extensions.push(extension.to_owned());
    }

    /// From now on it names no way to log in.
    pub fn offer_no_login(&self) {
        self.state.lock().unwrap().offers_no_login = true;
    }

    pub fn be_kind(&self) {
        self.state.lock().unwrap().replies.clear();
    }

    pub fn received(&self) -> Vec<Received> {
        self.state.lock().unwrap().received.clone()
    }

    /// Every line that it was told, but those of mails.
    pub fn said(&self) -> Vec<String> {
        self.state.lock().unwrap().said.clone()
    }
}

/// The certificate of a server that nobody has vouched for, and its key. They are the test's alone.
const CERTIFICATE: &str = include_str!("../../fixtures/self-signed.pem");
const KEY: &str = include_str!("../../fixtures/self-signed.key");

/// Starts a mail server that encrypts from the first byte, with a certificate that it has issued
/// itself; its address.
pub async fn self_signed() -> std::net::SocketAddr {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(chain, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    platform::task::spawn("encrypted mail server", async move {
        while let Ok((client, _)) = listener.accept().await {
            let _ = acceptor.accept(client).await;
        }
    });
    address
}

impl Received {
    /// A header, decoded.
    pub fn header(&self, name: &str) -> Option<String> {
        let prefix = format!("{}: ", name.to_ascii_lowercase());
        let unfolded = self.head.replace("\r\n ", " ").replace("\r\n\t", " ");
        let mut lines = unfolded.lines();
        let line = lines.find(|line| line.to_ascii_lowercase().starts_with(&prefix))?;
        Some(words(&line[prefix.len()..]))
    }

    /// How many headers there are of a name.
    pub fn headers(&self, name: &str) -> usize {
        let prefix = format!("{}:", name.to_ascii_lowercase());
        let lines = self.head.lines();
        let named = lines.filter(|line| line.to_ascii_lowercase().starts_with(&prefix));
        named.count()
    }

    /// The text, decoded, with our line ends.
    pub fn body(&self) -> String {
        let bytes = match self.header("Content-Transfer-Encoding").as_deref() {
            Some("quoted-printable") => quoted_printable(&self.text),
            Some("base64") => {
                let text: String = self.text.split_whitespace().collect();
                BASE64_STANDARD.decode(text).unwrap()
            }
            _ => self.text.clone().into_bytes(),
        };
        String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
    }

    /// As it came.
    pub fn raw(&self) -> String {
        format!("{}\r\n\r\n{}", self.head, self.text)
    }
}

/// RFC 2047: `=?utf-8?b?..?=`; white space between two of them means nothing.
fn words(value: &str) -> String {
    let mut decoded = String::new();
    let mut last_was_word = false;
    for word in value.split(' ') {
        let encoded = word.strip_prefix("=?utf-8?b?");
        let encoded = encoded.and_then(|word| word.strip_suffix("?="));
        let joined = decoded.is_empty() || (last_was_word && encoded.is_some());
        if !joined {
            decoded.push(' ');
        }
        last_was_word = encoded.is_some();
        match encoded {
            Some(encoded) => {
                let bytes = BASE64_STANDARD.decode(encoded).unwrap();
                decoded += std::str::from_utf8(&bytes).unwrap();
            }
            None => decoded += word,
        }
    }
    decoded
}

fn quoted_printable(text: &str) -> Vec<u8> {
    let text = text.replace("=\r\n", "");
    let mut bytes = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('=') {
        bytes.extend_from_slice(before.as_bytes());
        let (code, after) = after.split_at(2);
        bytes.push(u8::from_str_radix(code, 16).unwrap());
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

async fn serve(client: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let (read, mut write) = client.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut line = String::new();
    let (mut from, mut to) = (String::new(), String::new());
    loop {
        let command = line.split([' ', ':']).next().unwrap_or_default();
        let command = command.to_ascii_uppercase();
        let reply = state.lock().unwrap().replies.get(&command).copied();
        match reply {
            Some(Reply::Code(code)) => {
                let answer = format!("{code} no: {line}\r\n");
                write.write_all(answer.as_bytes()).await?;
            }
            Some(Reply::Hang) => std::future::pending().await,
            Some(Reply::Drop) => return Ok(()),
            None => {
                let answer = match command.as_str() {
                    "" => "220 test",
                    "EHLO" => &hello(&state.lock().unwrap()),
                    "AUTH" => "235 welcome",
                    "DATA" => "354 go on",
                    "QUIT" => "221 bye",
                    "MAIL" => {
                        from = path(&line);
                        "250 ok"
                    }
                    "RCPT" => {
                        to = path(&line);
                        "250 ok"
                    }
                    "." => "250 taken",
                    _ => "502 what?",
                };
                write.write_all(format!("{answer}\r\n").as_bytes()).await?;
                if command == "DATA" {
                    let Some(mut mail) = text(&mut lines).await? else {
                        return Ok(());
                    };
                    (mail.from, mail.to) = (from.clone(), to.clone());
                    let mut state = state.lock().unwrap();
                    let mut end = ".";
                    if !state.replies.contains_key(end) {
                        state.received.push(mail);
                        if state.replies.contains_key(TAKEN) {
                            end = TAKEN;
                        }
                    }
                    end.clone_into(&mut line);
                    continue;
                }
            }
        }
        let Some(next) = lines.next_line().await? else {
            return Ok(());
        };
        state.lock().unwrap().said.push(next.clone());
        line = next;
    }
}

fn hello(state: &State) -> String {
    let more = state.extensions.iter().map(|it| format!("250-{it}\r\n"));
    let last = if state.offers_no_login {
        "HELP"
    } else {
        "AUTH PLAIN"
    };
    format!(
        "250-test\r\n{}250-8BITMIME\r\n250 {last}",
        more.collect::<String>()
    )
}

/// `MAIL FROM:<path> ..`
fn path(line: &str) -> String {
    let path = line
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'));
    path.map_or_else(String::new, |(path, _)| path.to_owned())
}

/// The text up to its end.
async fn text(
    lines: &mut tokio::io::Lines<BufReader<tokio::net::tcp::OwnedReadHalf>>,
) -> std::io::Result<Option<Received>> {
    let mut mail = String::new();
    loop {
        match lines.next_line().await? {
            None => return Ok(None),
            Some(line) if line == "." => break,
            Some(line) => {
                mail += line.strip_prefix('.').unwrap_or(&line);
                mail += "\r\n";
            }
        }
    }
    let (head, text) = mail.split_once("\r\n\r\n").unwrap_or((&mail, ""));
    Ok(Some(Received {
        from: String::new(),
        to: String::new(),
        head: head.to_owned(),
        text: text.to_owned(),
    }))
}
