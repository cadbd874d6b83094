mod input;

fn main() {}
