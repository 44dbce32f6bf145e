//! LinkBench's graph operations (Armstrong et al., SIGMOD 2013) on three trees: nodes, links, and
//! counts of links. The mix is that of LinkBench's `FBWorkload.properties`.
//!
//! Differences from the original: ids come from a Zipf-like distribution with one parameter, not
//! from Facebook's histograms, and every node begins with the same number of links.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::random::Random;
use crate::row::{get32, key, part, put32};
use crate::store::TableId;

const NODES: TableId = TableId(0);
const LINKS: TableId = TableId(1);
const COUNTS: TableId = TableId(2);

/// Which tables are heap files, for [`crate::Engine::create`].
pub const HEAPS: [bool; 3] = [false, false, false];

const NODE_BYTES: usize = 160;
const LINK_BYTES: usize = 40;
/// Types of links.
const TYPES: u32 = 2;
/// Links of a type that a node has at first.
const LINKS_PER_TYPE: u32 = 3;
/// Longest list that an operation returns (LinkBench has 10,000, on lists that rarely get so long).
const LIST_LIMIT: u32 = 1000;
/// How uneven the access is: 0 is uniform; the density of rank r falls like r to the power -SKEW.
const SKEW: f64 = 0.7;

/// Fills an empty database with nodes 1 to `nodes` and their links, and flushes it.
///
/// # Errors
/// Those of pool and log.
pub fn load(engine: &Engine, nodes: u32) -> Result<(), EngineError> {
    for node in 1..=nodes {
        engine.load(NODES, &key(&[node]), &[b'n'; NODE_BYTES])?;
        for kind in 0..TYPES {
            for link in 0..LINKS_PER_TYPE {
                let to = scatter(node.wrapping_add(link * 7919), nodes);
                engine.load(LINKS, &key(&[node, kind, to]), &[b'l'; LINK_BYTES])?;
            }
            engine.load(COUNTS, &key(&[node, kind]), &LINKS_PER_TYPE.to_le_bytes())?;
        }
    }
    engine.flush()
}

/// Spreads ranks over ids, so that hot nodes are not neighbours.
fn scatter(rank: u32, nodes: u32) -> u32 {
    // The remainder is below 2^32.
    (u64::from(rank).wrapping_mul(0x9e37_79b9_7f4a_7c15) % u64::from(nodes)) as u32 + 1
}

/// An operation of the mix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// 50.7 %.
    GetLinkList,
    /// 12.9 %.
    GetNode,
    /// 9 %.
    AddLink,
    /// 8 %.
    UpdateLink,
    /// 7.4 %.
    UpdateNode,
    /// 4.9 %.
    CountLinks,
    /// 3 %.
    DeleteLink,
    /// 2.6 %.
    AddNode,
    /// 1 %.
    DeleteNode,
    /// 0.5 %.
    GetLink,
}

const MIX: [(f64, Kind); 10] = [
    (50.7, Kind::GetLinkList),
    (12.9, Kind::GetNode),
    (9.0, Kind::AddLink),
    (8.0, Kind::UpdateLink),
    (7.4, Kind::UpdateNode),
    (4.9, Kind::CountLinks),
    (3.0, Kind::DeleteLink),
    (2.6, Kind::AddNode),
    (1.0, Kind::DeleteNode),
    (0.5, Kind::GetLink),
];

/// A user of the graph.
pub struct Client<'e> {
    engine: &'e Engine,
    nodes: u32,
    /// Ids for the nodes that this user adds: its own range, from here on.
    next_new: u32,
    random: Random,
}

impl<'e> Client<'e> {
    /// User number `user` (fewer than 2,000) of a graph of `nodes` nodes (fewer than 2^31).
    #[must_use]
    pub fn new(engine: &'e Engine, nodes: u32, user: u32, seed: u64) -> Self {
        let next_new = (1 << 31) + user * (1 << 20);
        Self { engine, nodes, next_new, random: Random::new(seed ^ (u64::from(user) << 40)) }
    }

    fn node(&mut self) -> u32 {
        // The inverse of the distribution's integral, which is rank^(1 - SKEW).
        let rank = self.random.unit().powf(1.0 / (1.0 - SKEW)) * f64::from(self.nodes);
        // A rank is below the number of nodes.
        scatter(rank as u32, self.nodes)
    }

    /// Runs one operation of the mix.
    ///
    /// # Errors
    /// The operation's kind with its error; after [`EngineError::LockTimeout`] the user may go on.
    pub fn step(&mut self) -> Result<Kind, (Kind, EngineError)> {
        let mut draw = self.random.unit() * 100.0;
        let drawn = MIX.iter().find(|(share, _)| {
            draw -= share;
            draw < 0.0
        });
        let kind = drawn.map_or(Kind::GetLinkList, |entry| entry.1);
        let (node, link_type) = (self.node(), self.random.within(0, TYPES - 1));
        let done = match kind {
            Kind::GetLinkList => self.list(node, link_type).map(drop),
            Kind::GetNode => self.engine.begin().get(NODES, &key(&[node])).map(drop),
            Kind::CountLinks => self.engine.begin().get(COUNTS, &key(&[node, link_type])).map(drop),
            Kind::GetLink => {
                let to = scatter(node, self.nodes);
                self.engine.begin().get(LINKS, &key(&[node, link_type, to])).map(drop)
            }
            Kind::AddLink => {
                let to = self.node();
                self.set_link(node, link_type, to, true)
            }
            Kind::UpdateLink | Kind::DeleteLink => self.change_link(node, link_type, kind),
            Kind::UpdateNode => self.put_node(node),
            Kind::AddNode => {
                self.next_new += 1;
                self.put_node(self.next_new)
            }
            Kind::DeleteNode => {
                let mut tx = self.engine.begin();
                tx.delete(NODES, &key(&[node])).and_then(|()| tx.commit())
            }
        };
        done.map(|()| kind).map_err(|error| (kind, error))
    }

    fn list(&self, node: u32, link_type: u32) -> Result<Vec<u32>, EngineError> {
        let mut found = Vec::new();
        let (from, to) = (key(&[node, link_type]), key(&[node, link_type + 1]));
        self.engine.begin().scan(LINKS, &from, &to, &mut |key, _| {
            found.push(part(key, 2));
            found.len() < LIST_LIMIT as usize
        })?;
        Ok(found)
    }

    fn put_node(&self, node: u32) -> Result<(), EngineError> {
        let mut tx = self.engine.begin();
        tx.put(NODES, &key(&[node]), &[b'u'; NODE_BYTES])?;
        tx.commit()
    }

    /// Updates or deletes the first link of a list, if there is one.
    fn change_link(&self, node: u32, link_type: u32, kind: Kind) -> Result<(), EngineError> {
        match self.list(node, link_type)?.first() {
            Some(&to) => self.set_link(node, link_type, to, kind == Kind::UpdateLink),
            None => Ok(()),
        }
    }

    /// Adds or removes a link, and updates the count.
    fn set_link(
        &self,
        node: u32,
        link_type: u32,
        to: u32,
        present: bool,
    ) -> Result<(), EngineError> {
        let mut tx = self.engine.begin();
        let at = key(&[node, link_type]);
        let mut count = tx.get_for_update(COUNTS, &at)?.unwrap_or_else(|| vec![0; 4]);
        let link = key(&[node, link_type, to]);
        let was = tx.get(LINKS, &link)?.is_some();
        if present {
            tx.put(LINKS, &link, &[b'm'; LINK_BYTES])?;
        } else {
            tx.delete(LINKS, &link)?;
        }
        if was != present {
            let links = get32(&count, 0).wrapping_add_signed(if present { 1 } else { -1 });
            put32(&mut count, 0, links);
            tx.put(COUNTS, &at, &count)?;
        }
        tx.commit()
    }
}

/// Compares every count with the existing links.
///
/// # Errors
/// [`EngineError::Damaged`] with the first difference, the pool's.
pub fn check(engine: &Engine, nodes: u32) -> Result<(), EngineError> {
    let tx = engine.begin();
    for node in 1..=nodes {
        for kind in 0..TYPES {
            let mut links = 0;
            let (from, to) = (key(&[node, kind]), key(&[node, kind + 1]));
            tx.scan(LINKS, &from, &to, &mut |_, _| {
                links += 1;
                true
            })?;
            let count = tx.get(COUNTS, &from)?.map_or(0, |row| get32(&row, 0));
            if count != links {
                let what =
                    format!("node {node}, type {kind}: {links} links, but a count of {count},");
                return Err(EngineError::Damaged { what });
            }
        }
    }
    Ok(())
}
