local t = {}
t.t = t
return extend(t, {})
