//! A REST catalogue of Iceberg's own making (Java), with its metadata files in a bucket.

use crate::process::{Process, Slot};
use crate::{Folder, Home, Port, Result, S3, http, java};

pub struct RestCatalogue {
    process: Slot,
    port: Port,
    folder: Folder,
    properties: Vec<String>,
}

impl RestCatalogue {
    /// `warehouse` is where tables lie whose place nobody names: `s3://BUCKET/PREFIX`.
    pub fn start(s3: &S3, warehouse: &str) -> Result<RestCatalogue> {
        let (port, folder) = (Port::free()?, Folder::open(Home::Own)?);
        let properties = [
            ("warehouse", warehouse.to_owned()),
            ("uri", format!("jdbc:sqlite:{}", folder.path.join("catalogue.sqlite").display())),
            ("io-impl", "org.apache.iceberg.aws.s3.S3FileIO".to_owned()),
            ("s3.endpoint", s3.endpoint()),
            ("s3.path-style-access", "true".to_owned()),
            ("s3.access-key-id", s3.access_key().to_owned()),
            ("s3.secret-access-key", s3.secret_key().to_owned()),
            ("client.region", s3.region().to_owned()),
        ]
        .map(|(name, value)| format!("{name}={value}"))
        .to_vec();
        let process = Slot::new(launch(&port, &folder, &properties)?);
        Ok(RestCatalogue { process, port, folder, properties })
    }

    /// Without `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Host and port, for a proxy.
    pub fn address(&self) -> String {
        self.port.address()
    }

    /// As by kill -9.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// After a kill, with all that was committed.
    pub fn restart(&self) -> Result<()> {
        self.process.restart(|| launch(&self.port, &self.folder, &self.properties))
    }
}

fn launch(port: &Port, folder: &Folder, properties: &[String]) -> Result<Process> {
    let mut program = java::fetched_source("iceberg", "RestCatalogue.java", 192)?;
    program.arg(port.number.to_string()).args(properties);
    let mut process = Process::start("the REST catalogue", program, &folder.path.join("catalogue.log"), folder.detached)?;
    process.wait_ready(|_| http::answers(&port.address(), "/v1/config"))?;
    Ok(process)
}
