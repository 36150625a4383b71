return use "use/cycle_b"
