//! `[objects]` as it is written, and what it means.

use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ObjectsConfig {
    pub kind: ObjectsKind,
    /// Default: `objects` in the data folder.
    pub dir: Option<PathBuf>,
}

/// Where objects are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectsKind {
    Folder,
}

impl Default for ObjectsConfig {
    fn default() -> ObjectsConfig {
        ObjectsConfig { kind: ObjectsKind::Folder, dir: None }
    }
}

impl ObjectsConfig {
    pub fn dir(&self, data: &Path) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| data.join("objects"))
    }
}

impl<'de> Deserialize<'de> for ObjectsKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ObjectsKind, D::Error> {
        super::kind(deserializer, &[("folder", ObjectsKind::Folder)])
    }
}
