//! What is to be done with each field, compiled from the catalogue once.
//!
//! Owns: the tree that `sanitize` and `mask` walk beside an event. Does not own: the classification (the catalogue).
//! Invariant: what has no node has no classification.

use super::decode::{Leaf, SCREEN};
use super::names::Names;
use super::sanitize::Allowed;
use forebay_schemas::catalog::{Catalog, Field, Privacy, Sanitize, Shape};
use std::collections::BTreeMap;

/// One field.
pub(crate) struct Node {
    pub privacy: Option<Privacy>,
    pub steps: Vec<Step>,
    /// This field or one below it is sanitized.
    pub sanitizes: bool,
    /// Number of the token domain.
    pub domain: usize,
    pub kind: Kind,
}

/// One step of `x-sanitize`.
pub(crate) enum Step {
    Trim,
    Lowercase,
    CollapseSpace,
    /// Texts in lower case → what they become.
    Enum(BTreeMap<String, String>),
    Url(Allowed),
}

pub(crate) enum Kind {
    Scalar,
    Object(Names, Vec<Node>),
    Array(Box<Node>),
}

/// All token domains, numbered.
#[derive(Default)]
pub(crate) struct Domains {
    numbers: BTreeMap<String, usize>,
}

/// The plans of what stands beside the properties.
pub(crate) struct ContextPlan {
    leaves: [Option<Node>; Leaf::ALL.len()],
    pub screen: [Option<Node>; 2],
}

impl Node {
    /// `name` is the field's own: the token domain where none is given.
    pub fn compile(name: &str, field: &Field, domains: &mut Domains) -> Node {
        let kind = match &field.shape {
            Shape::Scalar => Kind::Scalar,
            Shape::Array(items) => Kind::Array(Box::new(Node::compile(name, items, domains))),
            Shape::Object(members) => Kind::Object(
                Names::new(members.keys().map(|name| name.as_str().into()).collect()),
                members.iter().map(|(name, field)| Node::compile(name, field, domains)).collect(),
            ),
        };
        let below = match &kind {
            Kind::Scalar => false,
            Kind::Array(items) => items.sanitizes,
            Kind::Object(_, members) => members.iter().any(|node| node.sanitizes),
        };
        let domain = match field.privacy {
            Some(Privacy::Tokenize | Privacy::Hash) => domains.number(field.token_domain.as_deref().unwrap_or(name)),
            _ => 0,
        };
        let steps: Vec<Step> = field.sanitize.iter().map(Step::compile).collect();
        Node { privacy: field.privacy, sanitizes: below || !steps.is_empty(), steps, domain, kind }
    }

    pub fn member(&self, name: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Object(names, members) => names.find(name).map(|number| &members[number]),
            Kind::Scalar | Kind::Array(_) => None,
        }
    }
}

impl Step {
    pub fn compile(step: &Sanitize) -> Step {
        match step {
            Sanitize::Trim => Step::Trim,
            Sanitize::Lowercase => Step::Lowercase,
            Sanitize::CollapseSpace => Step::CollapseSpace,
            Sanitize::Enum(values) => Step::Enum(values.clone()),
            Sanitize::Url(allowed) => Step::Url(Allowed::new(allowed.clone())),
        }
    }
}

impl Domains {
    fn number(&mut self, name: &str) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(name.to_owned()).or_insert(next)
    }
    /// In the order of their numbers.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<(&str, usize)> = self.numbers.iter().map(|(name, number)| (name.as_str(), *number)).collect();
        names.sort_by_key(|(_, number)| *number);
        names.into_iter().map(|(name, _)| name).collect()
    }
}

impl ContextPlan {
    pub fn new(catalog: &Catalog, domains: &mut Domains) -> ContextPlan {
        let root = &catalog.context().fields;
        let mut node = |path: &[&str]| {
            let field = path.iter().try_fold(root, |field, name| field.member(name))?;
            Some(Node::compile(path[path.len() - 1], field, domains))
        };
        ContextPlan { leaves: Leaf::ALL.map(|leaf| node(leaf.path())), screen: SCREEN.map(&mut node) }
    }
    pub fn leaf(&self, leaf: Leaf) -> Option<&Node> {
        self.leaves[leaf as usize].as_ref()
    }
}
