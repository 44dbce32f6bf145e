//! The figures of MongoDB, Cassandra and Riak in short.

use super::tests::{holds, holds_at};
use super::{
    cassandra_4_22, cassandra_4_23, cassandra_4_24, mongodb_4_19, mongodb_4_20, mongodb_4_21,
    riak_4_25, riak_4_26, riak_4_27,
};

#[test]
fn mongodb_holds() {
    holds(&mongodb_4_19::FIGURE, 5, &[]);
    holds_at(&mongodb_4_20::FIGURE, 8, Some(&[0.1, 50.0, 1000.0]), &[]);
    holds(&mongodb_4_21::FIGURE, 8, &[]);
}

#[test]
fn cassandra_holds() {
    holds(&cassandra_4_22::FIGURE, 5, &[]);
    holds(&cassandra_4_23::FIGURE, 8, &[]);
    holds(&cassandra_4_24::FIGURE, 5, &[]);
}

#[test]
fn riak_holds() {
    holds(&riak_4_25::FIGURE, 5, &[]);
    holds(&riak_4_26::FIGURE, 10, &[]);
    holds_at(&riak_4_27::FIGURE, 20, Some(&[5.0, 1000.0]), &[]);
}
