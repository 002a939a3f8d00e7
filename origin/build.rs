fn main() {
    // The compiler sees a changed migration, but not a new one.
    println!("cargo::rerun-if-changed=migrations");
}
