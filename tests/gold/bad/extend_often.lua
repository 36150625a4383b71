local t = {}
for i = 1, 2000 do
    t = extend(t, {})
end
return t
