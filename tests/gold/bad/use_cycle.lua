return use "use/cycle_a"
