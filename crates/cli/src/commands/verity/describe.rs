//! What a tree is, in the lines that veritysetup prints and scripts read.

use std::fmt::Write;
use std::path::Path;

use atrest_engine::verity::{Digest, Layout, Together};
use serde_json::json;

use super::parts::uuid_text;
use super::{print, shown};
use crate::failure::Failure;
use crate::output::Output;

pub struct Described<'a> {
    pub tree: &'a Path,
    pub uuid: Option<[u8; 16]>,
    pub layout: &'a Layout,
    /// The hash's name as somebody typed it.
    pub hash: Option<&'a str>,
    pub together: Together,
    pub root: Option<Digest>,
}

impl Described<'_> {
    pub fn print(&self, output: &Output) -> Result<(), Failure> {
        match output.is_json() {
            true => output.report(&self.json(), ""),
            // cannot fail: it goes into a string.
            false => print(&self.text().unwrap_or_default()),
        }
    }

    fn salt(&self) -> String {
        self.layout.parameters().salt().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn uuid(&self) -> String {
        // intended: without a superblock there is no UUID.
        self.uuid.map(uuid_text).unwrap_or_default()
    }

    /// Bytes of the tree's device that are used; of the parity's, if that is another one.
    fn sizes(&self) -> (u64, Option<u64>) {
        let (tree, fec) = (self.layout.tree(), self.layout.fec());
        let block = u64::from(tree.block());
        let parity = fec.map(|fec| fec.parity_blocks() * block);
        match self.together.tree_parity {
            // intended: where there is none, it takes no room.
            true => (tree.end_bytes() + parity.unwrap_or(0), None),
            false => (tree.end_bytes(), parity),
        }
    }

    fn text(&self) -> Result<String, std::fmt::Error> {
        let (parameters, tree) = (self.layout.parameters(), self.layout.tree());
        let mut text = String::new();
        writeln!(text, "VERITY header information for {}", shown(self.tree))?;
        writeln!(text, "UUID:            \t{}", self.uuid())?;
        writeln!(text, "Hash type:       \t{}", parameters.hash_type().number())?;
        writeln!(text, "Data blocks:     \t{}", parameters.data_blocks())?;
        writeln!(text, "Data block size: \t{}", parameters.data_block())?;
        writeln!(text, "Hash blocks:     \t{}", tree.blocks())?;
        writeln!(text, "Hash block size: \t{}", tree.block())?;
        writeln!(text, "Hash algorithm:  \t{}", self.hash.unwrap_or(parameters.hash()))?;
        if let Some(fec) = self.layout.fec() {
            writeln!(text, "FEC RS roots:   \t{}", fec.roots())?;
            writeln!(text, "FEC blocks:     \t{}", fec.parity_blocks())?;
        }
        let salt = self.salt();
        writeln!(text, "Salt:            \t{}", if salt.is_empty() { "-" } else { &salt })?;
        if let Some(root) = self.root {
            writeln!(text, "Root hash:      \t{root}")?;
        }
        // Where the tree begins elsewhere, this says nothing of use.
        let (of_tree, of_parity) = self.sizes();
        if self.layout.place().offset == 0 {
            writeln!(text, "Hash device size: \t{of_tree} [bytes]")?;
        }
        if let Some(bytes) = of_parity.filter(|_| self.layout.fec().is_some_and(|fec| fec.offset() == 0)) {
            writeln!(text, "FEC device size: \t{bytes} [bytes]")?;
        }
        Ok(text)
    }

    fn json(&self) -> serde_json::Value {
        let (parameters, tree) = (self.layout.parameters(), self.layout.tree());
        json!({
            "uuid": self.uuid.map(uuid_text),
            "hash_type": parameters.hash_type().number(),
            "hash": parameters.hash(),
            "salt": self.salt(),
            "data_blocks": parameters.data_blocks(),
            "data_block_size": parameters.data_block(),
            "hash_blocks": tree.blocks(),
            "hash_block_size": tree.block(),
            "hash_offset": self.layout.place().offset,
            "fec_roots": self.layout.fec().map(|fec| fec.roots()),
            "fec_blocks": self.layout.fec().map(|fec| fec.parity_blocks()),
            "root_hash": self.root.map(|root| root.to_string()),
        })
    }
}
