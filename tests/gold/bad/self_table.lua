local t = { target = "cpu" }
t.model = t
return t
