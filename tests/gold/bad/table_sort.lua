local t = { 3, 1, 2 }
table.sort(t)
return t
