//! The stages of the path (design §1): the word in the docs, the module name and the metric label.

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    Accept,
    Keep,
    Publish,
    Decode,
    Validate,
    Sanitize,
    Mask,
    Watermark,
    Dedup,
    Window,
    Join,
    Shred,
}

impl Stage {
    pub const ALL: [Stage; 12] = [
        Stage::Accept,
        Stage::Keep,
        Stage::Publish,
        Stage::Decode,
        Stage::Validate,
        Stage::Sanitize,
        Stage::Mask,
        Stage::Watermark,
        Stage::Dedup,
        Stage::Window,
        Stage::Join,
        Stage::Shred,
    ];
    pub fn name(self) -> &'static str {
        match self {
            Stage::Accept => "accept",
            Stage::Keep => "keep",
            Stage::Publish => "publish",
            Stage::Decode => "decode",
            Stage::Validate => "validate",
            Stage::Sanitize => "sanitize",
            Stage::Mask => "mask",
            Stage::Watermark => "watermark",
            Stage::Dedup => "dedup",
            Stage::Window => "window",
            Stage::Join => "join",
            Stage::Shred => "shred",
        }
    }
    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|s| s.name() == name)
    }
}
