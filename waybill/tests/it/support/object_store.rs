//! A bucket that supports as much of the S3 protocol as exports need. It stores objects, and
//! refuses, hangs, hangs up or forgets them if a test tells it to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

pub const BUCKET: &str = "exports-of-ours";
const ACCESS_KEY: &str = "AKIDTEST";
const SECRET: &str = "secret-of-the-bucket";

/// What it does instead of what it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answers this status, and a text that quotes the credential, as stores do.
    Status(u16),
    /// Answers a write with this status and takes everything else.
    StatusOfWrites(u16),
    /// Takes what is written and says nothing until this is over.
    Hang,
    /// Takes the next request with this method and says nothing until this is over; takes all others.
    HangOnce(&'static str),
    /// Sends what is read a byte at a time, with pauses, without end.
    Trickle,
    /// Reads half of what is written and closes the connection.
    Cut,
    /// Gives back other bytes than it was given.
    Corrupt,
    /// Takes what is written, and refuses to copy it.
    NoCopies,
    /// Writes over what is there although it was asked not to.
    Overwrites,
}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    objects: BTreeMap<String, Vec<u8>>,
    /// Methods and names of the requests that came.
    asked: Vec<String>,
    unsigned: usize,
    /// Whether a request hangs because of [`Fault::HangOnce`].
    hangs: bool,
}

pub struct Bucket {
    address: std::net::SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Bucket {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let bucket = Bucket {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        let state = bucket.state.clone();
        platform::task::spawn("bucket", async move {
            while let Ok((client, _)) = listener.accept().await {
                let state = state.clone();
                platform::task::spawn("bucket connection", async move {
                    let _ = serve(client, &state).await;
                });
            }
        });
        bucket
    }

    /// The settings of a service that keeps its exports here.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let url = format!("s3://{BUCKET}/some/prefix");
        let endpoint = format!("http://{}", self.address);
        vec![
            ("PRIVACY_EXPORT_URL", url),
            ("PRIVACY_EXPORT_S3_ENDPOINT", endpoint),
            ("PRIVACY_EXPORT_S3_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("PRIVACY_EXPORT_S3_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
    }

    /// From now on it fails so; None: it is well again.
    pub fn fails(&self, fault: Option<Fault>) {
        let mut state = self.state.lock().unwrap();
        state.fault = fault;
        state.hangs = false;
    }

    /// Everything in it, by name.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        self.state.lock().unwrap().objects.clone()
    }

    pub fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    /// Requests without our signature over their content.
    pub fn unsigned(&self) -> usize {
        self.state.lock().unwrap().unsigned
    }
}

impl State {
    /// Whether the request that has come hangs.
    fn hangs_now(&mut self, method: &str) -> bool {
        match self.fault {
            Some(Fault::Hang) => method == "PUT",
            Some(Fault::HangOnce(of)) => of == method && !std::mem::replace(&mut self.hangs, true),
            _ => false,
        }
    }
}

/// A request, as far as it is understood.
struct Request {
    method: String,
    /// Without the bucket.
    name: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The header names our key, and the hash of the content that it covers is right.
    fn is_signed(&self, body: &[u8]) -> bool {
        let head = format!("AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/");
        let hash = hex::encode(Sha256::digest(body));
        let given = self.header("authorization");
        given.starts_with(&head)
            && given.contains("x-amz-content-sha256")
            && given.contains("Signature=")
            && self.header("x-amz-content-sha256") == hash
    }
}

/// One request a connection.
async fn serve(client: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let Some(request) = head(&mut client).await? else {
        return Ok(());
    };
    let fault = state.lock().unwrap().fault;
    let length: usize = request.header("content-length").parse().unwrap_or(0);
    if fault == Some(Fault::Cut) && length > 0 {
        let mut half = vec![0; length / 2];
        client.read_exact(&mut half).await?;
        return Ok(());
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body).await?;
    {
        let mut state = state.lock().unwrap();
        let asked = format!("{} {}", request.method, request.name);
        state.asked.push(asked);
        state.unsigned += usize::from(!request.is_signed(&body));
    }
    if state.lock().unwrap().hangs_now(&request.method) {
        loop {
            super::pause(std::time::Duration::from_millis(20)).await;
            let fault = state.lock().unwrap().fault;
            if !matches!(fault, Some(Fault::Hang | Fault::HangOnce(_))) {
                break;
            }
        }
    }
    let is_copy = !request.header("x-amz-copy-source").is_empty();
    let (status, answer) = match fault {
        Some(Fault::Trickle) if request.method == "GET" => return trickle(client).await,
        Some(Fault::Status(status)) => (status, quoting()),
        Some(Fault::StatusOfWrites(status)) if request.method == "PUT" => (status, quoting()),
        Some(Fault::NoCopies) if is_copy => (500, quoting()),
        Some(Fault::Corrupt) if request.method == "GET" => {
            let (status, mut bytes) = answer(state, &request, body);
            if let Some(byte) = bytes.last_mut() {
                *byte ^= 1;
            }
            (status, bytes)
        }
        _ => answer(state, &request, body),
    };
    let head = format!(
        "HTTP/1.1 {status} Status\r\nContent-Length: {}\r\nETag: \"1\"\r\n\
         Last-Modified: Fri, 15 Jan 2027 08:00:00 GMT\r\nConnection: close\r\n\r\n",
        answer.len()
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(&answer).await?;
    client.flush().await
}

async fn head(client: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if client.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines[0].split(' ');
    let (method, target) = (first.next().unwrap(), first.next().unwrap());
    let url = reqwest::Url::parse(&format!("http://bucket{target}")).unwrap();
    let path = target.split('?').next().unwrap();
    let name = path.strip_prefix(&format!("/{BUCKET}/")).unwrap_or(path);
    let headers = lines[1..].iter().filter_map(|line| line.split_once(": "));
    Ok(Some(Request {
        method: method.to_owned(),
        name: name.to_owned(),
        query: url.query_pairs().into_owned().collect(),
        headers: headers
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
    }))
}

fn answer(state: &Mutex<State>, request: &Request, body: Vec<u8>) -> (u16, Vec<u8>) {
    let mut state = state.lock().unwrap();
    let overwrites = state.fault == Some(Fault::Overwrites);
    let objects = &mut state.objects;
    let name = request.name.clone();
    let missing = || (404, b"<Error><Code>NoSuchKey</Code></Error>".to_vec());
    match request.method.as_str() {
        "PUT" if !request.header("x-amz-copy-source").is_empty() => {
            let source = request.header("x-amz-copy-source");
            let source = source.trim_start_matches('/').split_once('/');
            let (_, source) = source.expect("bucket and name");
            let Some(bytes) = objects.get(source).cloned() else {
                return missing();
            };
            objects.insert(name, bytes);
            let copied = "<CopyObjectResult><ETag>\"1\"</ETag></CopyObjectResult>";
            (200, copied.into())
        }
        "PUT"
            if request.header("if-none-match") == "*"
                && !overwrites
                && objects.contains_key(&name) =>
        {
            let error = "<Error><Code>PreconditionFailed</Code></Error>";
            (412, error.into())
        }
        "PUT" => {
            objects.insert(name, body);
            (200, Vec::new())
        }
        "GET" if request.query.contains_key("list-type") => (200, list(objects, request)),
        "GET" => objects
            .get(&name)
            .map_or_else(missing, |it| (200, it.clone())),
        "DELETE" => {
            objects.remove(&name);
            (204, Vec::new())
        }
        _ => (501, Vec::new()),
    }
}

/// How many objects a list names at a time.
const LISTED: usize = 3;

/// A page of the names below a prefix.
fn list(objects: &BTreeMap<String, Vec<u8>>, request: &Request) -> Vec<u8> {
    let asked = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    let prefix = asked("prefix");
    let after = asked("start-after").max(asked("continuation-token"));
    let names = objects
        .keys()
        .filter(|name| name.starts_with(&prefix) && **name > after);
    let names: Vec<&String> = names.collect();
    let page = &names[..names.len().min(LISTED)];
    let entries = page.iter().map(|name| {
        format!(
            "<Contents><Key>{name}</Key><LastModified>2027-01-15T08:00:00.000Z</LastModified>\
             <ETag>&quot;1&quot;</ETag><Size>{}</Size></Contents>",
            objects[*name].len()
        )
    });
    let contents = entries.collect::<Vec<_>>().concat();
    let next = match page.last() {
        Some(last) if names.len() > LISTED => {
            format!("<NextContinuationToken>{last}</NextContinuationToken>")
        }
        _ => String::new(),
    };
    format!(
        "<ListBucketResult><IsTruncated>{}</IsTruncated>{contents}{next}</ListBucketResult>",
        !next.is_empty()
    )
    .into()
}

fn quoting() -> Vec<u8> {
    format!("<Error><Code>No</Code><AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId></Error>").into()
}

async fn trickle(mut client: BufReader<TcpStream>) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nETag: \"1\"\r\n\
                Last-Modified: Fri, 15 Jan 2027 08:00:00 GMT\r\n\r\n";
    client.write_all(head.as_bytes()).await?;
    loop {
        client.write_all(b"{").await?;
        client.flush().await?;
        super::pause(std::time::Duration::from_millis(100)).await;
    }
}
