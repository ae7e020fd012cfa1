//! A cluster of three RabbitMQ servers, which are the test's own.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{process, tools};

pub struct Cluster {
    /// Their URLs with commas between them.
    pub url: String,
    folder: TempDir,
}

impl Cluster {
    /// None: RabbitMQ's programs are not here.
    pub async fn start() -> Option<Self> {
        if !Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").exists() {
            tools::missing("rabbitmq-server");
            return None;
        }
        let mut cluster = Cluster {
            url: String::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        let said = cluster.services(&["cluster-up"]).await;
        let (_, url) = said.trim().split_once('=').expect("it prints a variable");
        cluster.url = url.replace('\\', "");
        Some(cluster)
    }

    pub async fn services(&self, arguments: &[&str]) -> String {
        let output = process::run(self.command(arguments)).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/services");
        let mut command = Command::new(script);
        let state = self.folder.path().join("services");
        command.args(arguments).env("WAYBILL_SERVICES_DIR", state);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.command(&["cluster-down"]).output();
    }
}
