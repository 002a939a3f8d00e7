# What neither Cargo.lock nor package-lock.json names.
WASM_BINDGEN=0.2.130    # the command line tool of the `wasm-bindgen` in Cargo.toml
NODE=22.23.3            # fetched where the machine's own is older than wrangler takes
