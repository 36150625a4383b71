return use "use_self"
