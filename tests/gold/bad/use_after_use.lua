-- a file that uses another one and returns no table: the line is its own
return use "use/uses"
