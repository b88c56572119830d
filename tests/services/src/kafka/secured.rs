//! What a secured Kafka knows its clients by: certificates of an authority made for it, users, rights.
//!
//! Nobody but `admin` may do anything until a test says so (`AclCommand`). The plain listener stays, for the brokers among
//! themselves and for tools: who comes that way may do everything.

use crate::{Result, process};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files are PEM.
pub struct Secured {
    pub ca_file: PathBuf,
    /// Of the user `forebay`, for the listener with client certificates.
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
    broker_file: PathBuf,
}

impl Secured {
    /// Users of the mechanisms PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512: name and password.
    pub const ADMIN: (&'static str, &'static str) = ("admin", "admin-secret");
    pub const USER: (&'static str, &'static str) = ("forebay", "forebay-secret");

    /// The same, as Kafka's formatter takes them.
    pub(super) const SCRAM: [&'static str; 4] = [
        "SCRAM-SHA-256=[name=admin,password=admin-secret]",
        "SCRAM-SHA-512=[name=admin,password=admin-secret]",
        "SCRAM-SHA-256=[name=forebay,password=forebay-secret]",
        "SCRAM-SHA-512=[name=forebay,password=forebay-secret]",
    ];

    pub(super) fn make(folder: &Path) -> Result<Secured> {
        std::fs::create_dir_all(folder)?;
        let at = |name: &str| folder.join(name);
        let made =
            Secured { ca_file: at("ca.pem"), cert_file: at("client.pem"), key_file: at("client.key"), broker_file: at("broker-chain.pem") };
        openssl(folder, "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=forebay-test-ca -keyout ca.key -out ca.pem")?;
        certificate(folder, "broker", "broker")?;
        certificate(folder, "client", "forebay")?;
        let parts = [at("broker.key"), at("broker.pem"), at("ca.pem")].map(std::fs::read_to_string);
        std::fs::write(&made.broker_file, parts.into_iter().collect::<std::io::Result<String>>()?)?;
        Ok(made)
    }

    pub(super) fn properties(&self) -> Vec<(&'static str, String)> {
        let plain = [Secured::ADMIN, Secured::USER].map(|(name, password)| format!(" user_{name}=\"{password}\"")).concat();
        let module = "org.apache.kafka.common.security";
        vec![
            ("ssl.keystore.type", "PEM".to_owned()),
            ("ssl.keystore.location", self.broker_file.display().to_string()),
            ("ssl.truststore.type", "PEM".to_owned()),
            ("ssl.truststore.location", self.ca_file.display().to_string()),
            ("listener.name.mtls.ssl.client.auth", "required".to_owned()),
            ("listener.name.mtls.ssl.principal.mapping.rules", "RULE:^CN=([^,]*).*$/$1/".to_owned()),
            ("listener.name.sasl.sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned()),
            ("listener.name.sasl.plain.sasl.jaas.config", format!("{module}.plain.PlainLoginModule required{plain};")),
            ("listener.name.sasl.scram-sha-256.sasl.jaas.config", format!("{module}.scram.ScramLoginModule required;")),
            ("listener.name.sasl.scram-sha-512.sasl.jaas.config", format!("{module}.scram.ScramLoginModule required;")),
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned()),
            ("super.users", "User:admin;User:ANONYMOUS".to_owned()),
        ]
    }
}

/// For 127.0.0.1 and localhost, signed by the authority.
fn certificate(folder: &Path, file: &str, name: &str) -> Result<()> {
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n")?;
    openssl(folder, &format!("req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {file}.key -out {file}.csr"))?;
    openssl(folder, &format!("x509 -req -in {file}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile names -out {file}.pem"))
}

fn openssl(folder: &Path, args: &str) -> Result<()> {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(args.split(' '));
    process::output(command).map(|_| ())
}
