//! `random_server SEED DRESS [polls]`: what the recorder is tested on (`headworks_record::truth`).

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    headworks_record::truth::serve(&words);
}
