//! `bottleneck KIND [fixed] [PEER]`: what `headworks tad limits` is tested on
//! (`headworks_record::planted`).

fn main() {
    headworks_record::planted::serve(&std::env::args().skip(1).collect::<Vec<_>>());
}
